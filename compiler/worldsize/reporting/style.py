"""The style sheet of a report: light, dark and printed, from 400 pixels wide."""

STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #1c2430; --quiet: #5b6675;
  --line: #dde2e9; --good: #1a7f4b; --bad: #c0322b; --busy: #1f6fbf; --odd: #9a6700; --soft: #eceff3;
  --c1: #1f6fbf; --c2: #d1651b; --c3: #1a7f4b; --c4: #8250b8; --c5: #b3325d; --c6: #5f7a12;
  --code: #f0f2f5; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1a2029; --ink: #e4e9f0;
  --quiet: #9aa6b5; --line: #323c49; --good: #4cc38a; --bad: #ff7b72; --busy: #6cb0f5; --odd: #d9a83a;
  --soft: #27303b; --c1: #6cb0f5; --c2: #f0975a; --c3: #4cc38a; --c4: #bf9bec; --c5: #f07fa5; --c6: #b0c95b;
  --code: #11161c; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
header, main, footer { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 6px; }
h2 { font-size: 1.15rem; margin: 0 0 12px; }
h3 { font-size: 1rem; margin: 20px 0 8px; }
a { color: var(--busy); }
:focus-visible { outline: 2px solid var(--busy); outline-offset: 2px; }
.skip { position: absolute; left: -9999px; }
.skip:focus { left: 12px; top: 12px; background: var(--card); padding: 8px; }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 18px; list-style: none; margin: 14px 0; padding: 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin: 0 0 18px; }
p { margin: 6px 0; }
.quiet, .note { color: var(--quiet); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px;
  margin: 16px 0 20px; }
.cards div { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px 14px; }
.cards dt { color: var(--quiet); font-size: .85rem; }
.cards dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
dl { margin: 0; }
section dl > div { display: grid; grid-template-columns: 150px 1fr; gap: 10px; padding: 4px 0;
  border-top: 1px solid var(--line); }
section dl > div:first-child { border-top: 0; }
dt { color: var(--quiet); } dd { margin: 0; }
.state { display: inline-block; font-size: .8rem; font-weight: 600; border-radius: 99px; padding: 1px 10px;
  border: 1px solid currentColor; color: var(--quiet); white-space: nowrap; vertical-align: middle; }
.state.succeeded, .state.reused { color: var(--good); } .state.failed, .state.died { color: var(--bad); }
.state.running { color: var(--busy); } .state.stopped, .state.interrupted { color: var(--odd); }
.scroll { overflow-x: auto; } .scroll.tall { max-height: 520px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-top: 1px solid var(--line); vertical-align: top;
  font-weight: 400; }
thead th { border-top: 0; color: var(--quiet); font-size: .85rem; }
tbody th { font-weight: 600; min-width: 5.6rem; } table:has(.right) tbody th { min-width: 7.4rem; }
td .state { vertical-align: baseline; }
td:not(:empty) { min-width: 4.9rem; } td:last-child:not(:empty) { min-width: 5.4rem; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.right { text-align: right; }
thead th, td.right { overflow-wrap: break-word; } thead th.number { white-space: normal; }
mark { background: none; color: var(--odd); font-weight: 600; }
pre { background: var(--code); border-radius: 8px; padding: 10px 12px; overflow-x: auto; margin: 8px 0;
  font-size: .85rem; white-space: pre-wrap; }
code { font-size: .92em; }
.graph { overflow-x: auto; } .graph svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.graph text { fill: var(--ink); font-size: 14px; font-weight: 600; }
.graph .sub { fill: var(--quiet); font-size: 12px; font-weight: 400; }
.graph rect { fill: var(--card); stroke: var(--line); stroke-width: 1.5; }
.graph .succeeded, .graph .reused { stroke: var(--good); }
.graph .failed, .graph .died { stroke: var(--bad); }
.graph .running { stroke: var(--busy); } .graph .stopped, .graph .interrupted { stroke: var(--odd); }
.graph .reused { stroke-dasharray: 5 4; }
.graph path { fill: none; stroke: var(--quiet); stroke-width: 1.4; }
.graph .tip { fill: var(--quiet); stroke: none; }
.time { list-style: none; margin: 0; padding: 0; }
.time li { display: grid; grid-template-columns: 150px 1fr 92px; gap: 10px; align-items: center;
  padding: 2px 0; }
.time .name { font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.time .below .name { font-weight: 400; padding-left: 14px; }
.time .rank .name { font-weight: 400; color: var(--quiet); padding-left: 14px; }
.time .took { text-align: right; white-space: nowrap; color: var(--quiet); font-variant-numeric: tabular-nums;
  font-size: .88rem; }
.track { position: relative; height: 18px; background: var(--soft); border-radius: 4px; overflow: hidden; }
.rank .track { height: 14px; }
.ticks span { position: relative; height: 1.5em; font-size: .8rem; color: var(--quiet); white-space: nowrap; }
.ticks i { position: absolute; font-style: normal; transform: translateX(-50%); padding-top: 5px;
  font-variant-numeric: tabular-nums; }
.ticks i::before { content: ""; position: absolute; left: 50%; top: 0; height: 4px;
  border-left: 1px solid var(--quiet); }
.ticks i:first-child { transform: none; } .ticks i:first-child::before { left: 0; }
.bar { position: absolute; top: 0; bottom: 0; min-width: 2px; background: var(--quiet);
  border-radius: 3px; }
.bar.succeeded, .bar.reused { background: var(--good); } .bar.failed, .bar.died { background: var(--bad); }
.bar.running { background: var(--busy); } .bar.stopped, .bar.interrupted { background: var(--odd); }
.rank .bar { background: var(--line); border-radius: 0; }
.bar svg { position: absolute; top: 0; height: 100%; }
.pause { position: absolute; top: 0; bottom: 0;
  background: repeating-linear-gradient(45deg, transparent 0 4px, var(--line) 4px 6px); }
.computing { fill: var(--c1); } .waiting-area { fill: var(--c2); }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 8px 0 0; padding: 0;
  font-size: .85rem; color: var(--quiet); }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr));
  gap: 18px 26px; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: .92rem; }
figure svg { width: 100%; height: auto; display: block; font-family: inherit; }
figure img { max-width: min(100%, 560px); height: auto; background: #fff; border-radius: 8px;
  padding: 8px; }
details > summary { cursor: pointer; color: var(--quiet); margin: 8px 0; }
footer { color: var(--quiet); font-size: .85rem; padding-bottom: 30px; }
@media (max-width: 640px) { header, main, footer { padding-left: 12px; padding-right: 12px; }
  section { padding: 14px 12px; } th, td { padding-right: 8px; } td.number:not(:empty) { min-width: 0; }
  .time li { grid-template-columns: 92px 1fr 78px; gap: 6px; } .ticks i:nth-child(even) { display: none; }
  section dl > div { grid-template-columns: 1fr; gap: 0; } .graph { display: none; } }
@media print { :root { --page: #fff; --card: #fff; --ink: #000; --quiet: #444; --line: #ccc; }
  body { font-size: 12px; } nav, .skip { display: none; } section { border: 0; padding: 0 0 8px; }
  section, figure { break-inside: avoid; }
section.long { break-inside: auto; }
.scroll.tall { max-height: none; overflow: visible; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""

"""Records of runs that are damaged, newer than this version, or written to act on a terminal."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import worldsize
from worldsize.base.problem import Related
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.untrusted import UnreadWarning
from worldsize.checking import Report
from worldsize.cli.check import FORMATS
from worldsize.cli.main import main
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.running import api as run
from worldsize.running.api import resume
from worldsize.running.launch.logs import Decoder
from worldsize.running.model.errors import ResumeError
from worldsize.running.show.views import PlainView, QuietView

FIRST = "20260102-030405-000"
ACTING = "\x1b[2J\x07\x9b31m\u202e"
EVENTS = [
    {"event": "run_started", "run": FIRST, "pipeline": "p.yml", "steps": ["shard"]},
    {"event": "step_started", "step": "shard", "attempt": 1, "processes": [{"name": "rank-0"}]},
    {"event": "process_ended", "step": "shard", "process": "rank-0", "status": 3},
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one run, whose runner died."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / ".worldsize" / "runs" / FIRST
    (root / "steps" / "shard" / "logs").mkdir(parents=True)
    (root / "steps" / "shard" / "logs" / "rank-0.log").write_text("one\n")
    time = "2026-01-02T03:04:05+00:00"
    (root / "events.jsonl").write_text("".join(json.dumps({"time": time, **each}) + "\n" for each in EVENTS))
    record = {"version": 1, "target": "p.yml", "steps": {"shard": {"needs": [], "parameters": {"t": ACTING}}}}
    (root / "run.json").write_text(json.dumps(record))
    return tmp_path / ".worldsize"


DAMAGED = [
    {"event": "run_ended", "state": "failed", "seconds": "NaN"},
    {"event": "run_ended", "state": "failed", "seconds": float("nan")},
    {"event": "run_ended", "state": "failed", "seconds": float("-inf")},
    {"event": "run_ended", "state": "failed", "seconds": 10**400},
    {"event": "step_ended", "step": "shard", "state": "failed", "seconds": "1e999", "reason": ["x"]},
    {"event": "step_ended", "step": "shard", "state": "failed", "seconds": True, "last_lines": [1, None]},
    {"event": "step_ended", "step": "a\0b/../..", "state": "failed", "seconds": -1, "reason": "r"},
    {"event": "process_ended", "step": "shard", "process": "rank\0", "status": "NaN"},
    {"event": "step_started", "step": "shard", "time": "0001-01-01T00:00:00+23:59", "processes": 7},
    {"event": "run_started", "time": "9999-12-31T23:59:59-23:59", "steps": [[], {}, None]},
    {"event": "run_resumed", "time": 7},
]


@pytest.mark.parametrize("event", DAMAGED, ids=json.dumps)
@pytest.mark.parametrize(
    "words", [("show", FIRST), ("show", FIRST, "--json"), ("runs",), ("logs", FIRST, "shard")]
)
def test_no_damaged_field_ends_in_a_traceback(
    event: dict[str, object], words: tuple[str, ...], home: Path
) -> None:
    log = home / "runs" / FIRST / "events.jsonl"
    log.write_text(log.read_text() + json.dumps({"time": "2026-01-02T03:04:09+00:00", **event}) + "\n")
    made = home / "runs" / FIRST / "steps" / "shard" / "outputs" / "metrics"
    made.mkdir(parents=True, exist_ok=True)
    (made / "metrics.json").write_text(f'{{"large": 1{"0" * 400}, "loss": NaN}}')
    result = CliRunner().invoke(main, [*words, "--runs-dir", str(home)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (None, "has no record of what it ran"),
        ("", "is damaged"),
        ("[]", "is damaged"),
        ('{"version": 1}', "is damaged"),
        (
            '{"version": 1, "target": "x", "options": {"settings": 5}, "track": true, "compiled": true}',
            "is damaged",
        ),
        ('{"version": 1, "target": 7, "options": {}, "track": true, "compiled": true}', "is damaged"),
        ('{"version": "NaN"}', "is damaged"),
        ('{"version": 2, "worldsize": "9.0"}', "was made by a newer Worldsize, 9.0"),
    ],
)
def test_a_record_that_cannot_be_used_says_why(record: str | None, said: str, home: Path) -> None:
    path = home / "runs" / FIRST / "run.json"
    path.unlink(missing_ok=True)
    if record is not None:
        path.write_text(record, encoding="utf-8")
    with pytest.raises(ResumeError, match=said):
        resume(home / "runs" / FIRST)


@pytest.mark.parametrize(
    "place", ["report.html", "steps/shard", "steps/shard/logs", "steps/shard/outputs/model"]
)
def test_a_run_is_not_resumed_through_a_link_out_of_its_home(place: str, home: Path, tmp_path: Path) -> None:
    path = home / "runs" / FIRST / place
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = tmp_path / "aside"
    aside.mkdir()
    path.symlink_to(aside)
    with pytest.raises(ResumeError, match=f"`{place}` of run `{FIRST}` is a link out of"):
        resume(home / "runs" / FIRST)
    assert not list(aside.iterdir())


def test_a_record_that_is_a_link_to_itself_says_why(home: Path) -> None:
    path = home / "runs" / FIRST / "run.json"
    path.unlink()
    path.symlink_to(path.name)
    odd = pytest.warns(UnreadWarning, match="a link that leads back to itself")
    with odd, pytest.raises(ResumeError, match="has no record"):
        resume(home / "runs" / FIRST)


def test_what_records_hold_acts_on_no_terminal(home: Path) -> None:
    log = home / "runs" / FIRST / "events.jsonl"
    event = {"event": "step_ended", "step": "shard", "state": f"fa{ACTING}iled", "reason": f"bell{ACTING}"}
    log.write_text(log.read_text() + json.dumps(event) + "\n")
    for words in (("show", FIRST), ("runs",)):
        result = CliRunner().invoke(main, [*words, "--runs-dir", str(home)])
        assert not set(ACTING) - set("[2J31m") & set(result.output)


@pytest.mark.parametrize("format_", FORMATS)
def test_no_format_of_a_report_lets_control_characters_through(format_: str) -> None:
    span = Span("a.yml", 1, 1, 1, 3)
    found = Diagnostic(
        "WS203", "slug", "error", f"a{ACTING}b", span, f"h{ACTING}", (Related(span, f"r{ACTING}"),)
    )
    sources = {"a.yml": Source("a.yml", f"x{ACTING}y")}
    said = Report((found,), sources, ("a.yml",)).render(format_)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
    if format_ == "json":  # which says the same nevertheless
        assert json.loads(said)["diagnostics"][0]["message"] == f"a{ACTING}b"


def test_views_and_logs_let_no_control_characters_through() -> None:
    lines: list[str] = []
    PlainView(lines.append).notice(f"a{ACTING}b\n\tc")
    lines += Decoder().feed(f"x{ACTING}y 👩\u200d🔬 é\ttab\n".encode())
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set("".join(lines))
    assert "\n\tc" in lines[0]
    assert lines[1].endswith("y 👩\u200d🔬 é\ttab")


def test_a_quiet_view_still_warns() -> None:
    lines: list[str] = []
    view = QuietView(lines.append)
    view.notice("building")
    view.warn("not tracked by MLflow: it is locked")
    assert lines == ["not tracked by MLflow: it is locked"]


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(60)
def test_a_quiet_run_says_that_it_is_not_tracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yml").write_text(JOB, encoding="utf-8")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mlflow.db").write_text("this is not a database")
    words = ["run", "job.yml", "-q", "--runs-dir", "home", "--environment", "current"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "not tracked by MLflow: its database: file is not a database" in result.stderr


JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: echo hello
environment: azureml:e:1
compute: azureml:cluster
"""


@pytest.mark.parametrize("part", ["save_request", "hold_lock", "hide_in_compiled", "prepare"])
def test_a_full_disk_leaves_no_run_of_nothing(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "run.json")

    monkeypatch.setattr(run, part, full)
    (tmp_path / "job.yml").write_text(JOB, encoding="utf-8")
    with pytest.raises(OSError, match="No space left"):
        worldsize.run(tmp_path / "job.yml", runs_dir=tmp_path / "home", track=False)
    assert list((tmp_path / "home" / "runs").iterdir()) == []


def test_a_component_quotes_data_without_what_acts_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wsshards import errors

    def stop(status: int) -> None:
        raise SystemExit(status)

    def main_of_a_component() -> None:
        raise errors.UserError(f"`a{ACTING}.csv` has no rows", f"look at `{ACTING}`")

    monkeypatch.setattr(errors, "end_process", stop)
    with pytest.raises(SystemExit):
        errors.run_main(main_of_a_component)
    said = capsys.readouterr().err
    assert said.startswith("error: `a")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)

"""`worldsize report`: what is on the page of a run, whatever is in its folder."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from run_folders import FolderOfRun, report_progress, track

from worldsize.cli.main import main
from worldsize.reporting import charts, page
from worldsize.reporting.model import Period, RankSample
from worldsize.reporting.read_run import read_run
from worldsize.reporting.timeline import Axis, divide
from worldsize.running.record.folder import hold_lock

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
EVIL = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _no_drawing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages without curves, which take a second, unless a test asks for them."""
    monkeypatch.chdir(tmp_path)
    if "drawing" not in request.fixturenames:
        monkeypatch.setattr(charts, "can_draw", lambda: False)


@pytest.fixture
def drawing() -> None:
    """Asked for by tests of curves."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".worldsize"


def trained(home: Path, **named: str) -> FolderOfRun:
    run = FolderOfRun(home, **named)
    run.step("shard")
    report_progress(run.step("train", processes=2, parameters={"seed": "7"}), 30)
    return run


def render(root: Path) -> str:
    return page.render_page(read_run(root))


class Outline(HTMLParser):
    """Tags that are open, to find what is not closed, and the texts of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.add(tag)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Outline:
    outline = Outline(text)
    assert outline.open == []
    return outline


def test_a_run_is_on_one_page_with_its_parts(home: Path) -> None:
    run = trained(home)
    (run.root / "steps" / "train" / "outputs" / "metrics").mkdir(parents=True)
    metrics = run.root / "steps" / "train" / "outputs" / "metrics"
    (metrics / "metrics.json").write_text('{"accuracy": 0.9876}')
    (metrics / "confusion_matrix.png").write_bytes(PNG)
    registration = {"registered": False, "name": "digits", "reason": "accuracy is 0.9876"}
    (metrics / "registration.json").write_text(json.dumps(registration))
    text = render(run.finish(python="3.12.1"))
    outline = read(text)
    headings = [each for each in outline.texts if each in ("Steps", "Timeline", "Training: train", "Metrics")]
    assert {"Steps", "Timeline", "Training: train", "Metrics", "Models", "Environment"} <= set(outline.texts)
    assert headings
    assert {"succeeded", "0.9876", "3.12.1", "accuracy is 0.9876", "train.seed 7"} <= set(outline.texts)
    assert 'alt="Confusion matrix (train)"' in text
    assert "script" not in outline.tags
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)


def test_who_waited_for_whom_is_said(home: Path) -> None:
    text = render(trained(home).finish())
    assert "Rank 1 was most often the slowest, in 100% of the intervals" in text
    assert "A rank waited at most 1.45 s of 5.80 s of training steps for a slower one." in text
    assert '<polygon class="waiting-area"' in text


def test_shares_of_a_rank_add_up() -> None:
    shares = divide(RankSample(0, 1.0, [0.5, 0.25]), RankSample(1, 3.0, [1.0, 1.75]))
    assert [each.computing for each in shares] == [0.25, 0.75]
    assert [each.waiting for each in shares] == [0.5, 0.0]
    assert divide(RankSample(0, 1.0, [1.0]), RankSample(1, 1.0, [1.0]))[0].computing == 0.0


def test_a_pause_takes_little_of_the_time_line() -> None:
    axis = Axis(Period(0, 1020), [Period(10, 1010)])
    assert axis.place(0) == 0
    assert axis.place(10) == pytest.approx(50 / 1.04, rel=0.01)
    assert axis.place(1010) - axis.place(10) < 5
    assert axis.place(1020) == pytest.approx(100)


@pytest.mark.usefixtures("drawing")
def test_curves_are_drawn_in_the_colours_of_the_page(home: Path) -> None:
    run = trained(home)
    root = run.finish()
    values = {"loss": [2.0, 1.0, 0.5], EVIL: [1.0, 2.0], "predicted_samples_per_second": [120.0, 120.0]}
    track(home, root.name, "train", values, {"rows": "1438"})
    text = render(root)
    outline = read(text)
    assert text.count("<svg") >= 5
    assert "stroke: var(--c1)" in text
    assert "#a0000" not in text
    assert "predicted samples per second" in outline.texts
    assert EVIL in outline.texts
    assert "1438" in outline.texts
    assert "c0ffee" in outline.texts
    assert len(text) < 300_000


def test_a_score_alone_is_named_in_the_title_of_its_chart() -> None:
    curve = [(1, 0.5), (2, 0.9)]
    (one,) = charts.choose_charts({"validation_r2": curve})
    (two,) = charts.choose_charts({"validation_f1": curve, "validation_auroc": curve})
    assert (one.title, two.title) == ("validation_r2", "Scores on validation rows")


def test_the_head_of_a_regression_has_its_scores(home: Path) -> None:
    run = trained(home)
    metrics = run.step("evaluate") / "outputs" / "metrics"
    metrics.mkdir(parents=True)
    scores = {"loss": 0.07, "mse": 2e4, "rmse": 149.3, "mae": 103.7, "r2": 0.927}
    (metrics / "metrics.json").write_text(json.dumps(scores))
    cards = render(run.finish()).partition('class="cards"')[2].partition("</dl>")[0]
    assert re.findall(r"<dt>(.*?)</dt>", cards) == ["steps done", "r2", "rmse", "mae", "loss"]


def test_the_head_of_imbalanced_classes_has_what_a_constant_answer_gets(home: Path) -> None:
    run = trained(home)
    metrics = run.step("evaluate") / "outputs" / "metrics"
    metrics.mkdir(parents=True)
    shares = {"accuracy": 0.94, "recall_no": 1.0, "recall_<b>": 0.14, "constant_accuracy_no": 0.93}
    (metrics / "metrics.json").write_text(json.dumps({**shares, "average_precision": 0.4, "loss": 0.2}))
    cards = render(run.finish()).partition('class="cards"')[2].partition("</dl>")[0]
    first, leading, accuracy, *_ = re.findall(r"<dt>(.*?)</dt>", cards)
    assert (first, leading) == ("steps done", "average_precision; a guess gets 0.07")
    assert accuracy == "accuracy; the constant answer `no` gets 0.93"


def test_the_head_has_the_warnings_of_steps(home: Path) -> None:
    run = FolderOfRun(home)
    run.step("shard", warnings=["warning: column `<b>` alone tells `left`"])
    notes = "shard: warning: column <code>&lt;b&gt;</code> alone tells <code>left</code>"
    assert f'<p class="note">{notes}</p>' in render(run.finish())


def test_a_job_of_the_local_workspace_has_its_own_title(home: Path) -> None:
    run = trained(home, pipeline="/w/.worldsize/serve/jobs/calm_sky/pipeline.yml")
    assert "<h1>Rents &amp; &lt;b&gt;more&lt;/b&gt; <span" in render(run.finish(title="Rents & <b>more</b>"))
    assert "Rents & <b>more</b>" in CliRunner().invoke(main, ["runs"]).stdout


def test_without_matplotlib_the_page_says_so(home: Path) -> None:
    assert "matplotlib is not installed, so there are no curves" in render(trained(home).finish())


def test_nothing_of_a_run_is_markup(home: Path) -> None:
    run = FolderOfRun(home, pipeline=f"{EVIL}.yml")
    lines = [f"{EVIL} \x1b[31m", "&amp;"]
    step = run.step(
        f"a{EVIL.replace('/', '')}", "failed", reason=EVIL, last_lines=lines, parameters={EVIL: EVIL}
    )
    (step / "outputs" / "m").mkdir(parents=True)
    (step / "outputs" / "m" / "metrics.json").write_text(json.dumps({EVIL: 1.0, "accuracy": float("nan")}))
    (step / "outputs" / "m" / "confusion_matrix.png").write_bytes(b"<svg onload=alert(1)>")
    text = render(run.finish("failed", cwd=EVIL, options={"settings": {EVIL: EVIL}}))
    outline = read(text)
    assert "script" not in outline.tags
    assert "\x1b" not in text
    assert any(EVIL in each for each in outline.texts)
    assert "<img" not in text


def test_a_failed_run_begins_with_why(home: Path) -> None:
    run = trained(home)
    run.step(
        "evaluate", "failed", reason="rank 0 ended with exit status 3", last_lines=["boom", "KeyError: 'x'"]
    )
    text = render(run.finish("failed"))
    assert text.index(">Failures<") < text.index(">Steps<")
    assert "rank 0 ended with exit status 3" in text
    assert "KeyError: &#x27;x&#x27;" in text


def test_a_resumed_run_shows_its_pause(home: Path) -> None:
    run = FolderOfRun(home)
    run.step("train", "stopped")
    run.say("run_resumed", 3600.0, run=run.root.name)
    run.say("step_started", 1.0, step="train", attempt=1, processes=[{"name": "rank-0"}])
    run.say("step_ended", 5.0, step="train", state="succeeded", seconds=5.0)
    text = render(run.finish())
    assert "The run was resumed once." in text
    assert "Hatched: 1 h 00 min until the run was resumed." in text


def test_a_run_that_died_says_how_it_continues(home: Path) -> None:
    root = trained(home).finish(ended=False)
    assert f"without recording its end: worldsize resume {root.name} continues it." in render(root)


def test_a_running_run_says_as_of_when(home: Path) -> None:
    root = trained(home).finish(ended=False)
    with hold_lock(root):
        result = CliRunner().invoke(main, ["report"])
        text = (root / "report.html").read_text()
    assert re.search(r"report\.html, running, as of \d\d:\d\d:\d\d\n", result.output)
    assert re.search(r"running for [^<]+ · as of \d\d:\d\d:\d\d", text)


@pytest.mark.parametrize("damage", ["nothing", "torn", "binary", "no events", "lists", "odd progress"])
def test_a_damaged_run_has_a_page(home: Path, damage: str) -> None:
    root = trained(home).finish()
    events, progress = root / "events.jsonl", root / "steps" / "train" / "progress.jsonl"
    if damage == "nothing":
        for path in (events, root / "run.json"):
            path.unlink()
    elif damage == "torn":
        events.write_text(events.read_text()[:-40] + "\n{oops\n{}\n")
    elif damage == "binary":
        for path in (events, progress, root / "run.json", home / "mlflow.db"):
            path.write_bytes(bytes(range(256)) * 8)
    elif damage == "no events":
        events.write_text("")
    elif damage == "lists":
        (root / "run.json").write_text('{"steps": [1], "options": [], "target": 7, "withheld": 3}')
        (root / "pipeline").mkdir()
        (root / "pipeline" / "plan.json").write_text('{"steps": {"train": {"training": [], "topology": 1}}}')
        (root / "steps" / "train" / "sweep.json").write_text('{"trials": [1, {"parameters": 2}], "best": 3}')
    else:
        lines = [
            "[]",
            '{"step": "x"}',
            '{"step": 1e400, "loss": 1}',
            '{"computed_seconds": [1, "a"], "time": 1}',
        ]
        progress.write_text("\n".join([*lines, '{"step": 1, "loss": ' + "9" * 400 + "}", "{" * 5000]))
    assert read(render(root)).tags


def test_a_chain_of_a_thousand_steps_stays_usable(home: Path) -> None:
    run = FolderOfRun(home)
    for number in range(1000):
        run.step(f"step-{number}", seconds=1 + number / 1000)
    text = render(run.finish())
    assert len(text) < 600_000
    assert "1000 steps: 1000 succeeded." in text
    assert "The 60 of 1000 steps that took longest or failed." in text


def test_the_file_is_named_or_refused(home: Path, tmp_path: Path) -> None:
    root = trained(home).finish()

    def call(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["report", *words])
        return result.exit_code, result.output

    assert call("-o", "a.html")[1].splitlines()[0] == "a.html"
    assert (tmp_path / "a.html").stat().st_mode & 0o777 == 0o600
    assert json.loads(call("last", "--json")[1].splitlines()[0])["report"] == str(root / "report.html")
    status, text = call("-o", str(tmp_path))
    assert (status, text) == (
        1,
        f"error: `{tmp_path}` is a folder\n  = help: name a file: `-o {tmp_path / 'report.html'}`\n",
    )
    status, text = call("-o", "missing/a.html")
    assert status == 1
    assert text.startswith("error: `missing/a.html` cannot be written: no such file or directory\n")
    assert "there is no run `2030`" in call("2030")[1]
    assert call(f"{root}/", "-o", "b.html")[1].startswith("b.html\n")
    (home / "runs" / "other").mkdir()
    assert "is not the folder of a run" in call("other")[1]
    assert "is not the folder of a run" in call("./.worldsize")[1]
    assert not list(tmp_path.glob(".*.part"))

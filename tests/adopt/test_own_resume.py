"""Scripts that load checkpoints of their own, and what adopting adds to them."""

from __future__ import annotations

import pytest
from adopt_text import TRAINER, adopt_text

RELOAD = "if {}:\n            self.load({})"

ELSE = "\n        elif os.path.exists('a.pt'):\n            self.load('a.pt')"


def adopt_with(resume: str, guard: str = "pass", option: str = "pass"):  # type: ignore[no-untyped-def]
    return adopt_text(
        TRAINER.replace("{resume}", resume).replace("{guard}", guard).replace("{option}", option)
    )


def goes_on(text: str) -> bool:
    return "latest.pt" in text and "for epoch in range(start_epoch, self.args.epochs):" in text


@pytest.mark.parametrize(
    ("resume", "guard"),
    [
        (RELOAD.format("args.resume", "args.resume"), "pass"),
        (RELOAD.format("self.args.resume", "self.args.resume"), "pass"),
        (RELOAD.format("args.resume is not None and os.path.exists('a.pt')", "'a.pt'"), "pass"),
        (RELOAD.format("cfg.resume", "cfg.resume"), "pass"),
        ("if not args.resume:\n            pass\n        else:\n            self.load('a.pt')", "pass"),
        ("path = args.resume\n        if path:\n            self.load(path)", "pass"),
        ("self.load(args.resume)", "if not path:\n            return"),
        ("pass", "pass"),  # nothing loads
    ],
)
def test_a_trainer_that_resumes_only_with_an_option_gets_checkpoints(resume: str, guard: str) -> None:
    adoption = adopt_with(resume, guard)
    compile(adoption.text, "train.py", "exec")
    assert goes_on(adoption.text)
    assert not any("checkpoints" in each.message for each in adoption.obstacles)


@pytest.mark.parametrize(
    "resume",
    [
        RELOAD.format("os.path.exists('a.pt')", "'a.pt'"),
        RELOAD.format("args.resume or os.path.exists('a.pt')", "'a.pt'"),
        RELOAD.format("args.resume", "args.resume") + ELSE,
        RELOAD.format("cfg.start", "'a.pt'"),
    ],
)
def test_a_trainer_that_resumes_by_itself_is_reported_where_a_job_loses_its_folder(resume: str) -> None:
    adoption = adopt_with(resume)
    assert "latest.pt" not in adoption.text
    [found] = [each for each in adoption.obstacles if "checkpoints" in each.message]
    assert found.message.startswith("no checkpoints: the script loads its own here")
    kept = adopt_with(resume, option='parser.add_argument("--checkpoint-dir", default="checkpoints")')
    assert "latest.pt" not in kept.text
    assert not any("checkpoints" in each.message for each in kept.obstacles)


def test_a_folder_that_is_only_resumed_from_with_an_option_is_taken_by_the_job() -> None:
    option = 'parser.add_argument("--checkpoint-dir", default="checkpoints")'
    adoption = adopt_with(RELOAD.format("args.resume", "args.resume"), option=option)
    assert goes_on(adoption.text)
    assert 'CHECKPOINTS = os.environ.get("AZURE_ML_OUTPUT_checkpoints")\n' in adoption.text
    given = adopt_with(RELOAD.format("args.checkpoint_dir", "args.checkpoint_dir"), option=option)
    assert "latest.pt" not in given.text

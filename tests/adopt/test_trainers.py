"""The Trainer of Hugging Face saves and resumes only where the job asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopt_text import adopt_text

from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest

SCRIPTS = Path(__file__).with_name("scripts")
TRAINER = (SCRIPTS / "trainer_classifier.py").read_text(encoding="utf-8")
DATACLASS = (SCRIPTS / "trainer_language_model.py").read_text(encoding="utf-8")


def test_the_trainer_resumes_with_the_option_only() -> None:
    text = adopt_text(TRAINER).text
    assert "if args.checkpoints:\n" in text
    assert "    last_checkpoint = get_last_checkpoint(args.checkpoints)\n" in text
    assert '    trainer.args.save_strategy = "epoch"\n' in text
    assert "trainer.args.output_dir = output_dir\nmetrics" in text  # the model goes where it went


def test_a_script_whose_options_are_elsewhere_reads_the_variable_of_the_job(tmp_path: Path) -> None:
    adoption = adopt_text(DATACLASS)
    assert 'CHECKPOINTS = os.environ.get("AZURE_ML_OUTPUT_checkpoints")\n' in adoption.text
    assert [each.help for each in adoption.obstacles] == ["--arguments '--save_strategy epoch'"]
    script = tmp_path / "train.py"
    script.write_text(DATACLASS, encoding="utf-8")
    spec = make_project(ProjectRequest(adoption, script), tmp_path / "job", beside=False).files["train.yml"]
    assert b"outputs: {model: uri_folder, checkpoints: uri_folder}" in spec
    assert b"--checkpoints" not in spec


@pytest.mark.parametrize(
    "made", ['{"output_dir": "out", "learning_rate": 1e-4}', 'dict(output_dir="out", learning_rate=1e-4)']
)
def test_a_call_that_takes_a_mapping_gets_its_own_arguments(made: str) -> None:
    before, _, rest = TRAINER.partition("TrainingArguments(\n")
    text = f"{before}TrainingArguments(**settings)\n" + rest.partition("\n)\n")[2]
    text = text.replace("set_seed(42)", f"settings = {made}\nset_seed(42)")
    adopted = adopt_text(text).text
    compile(adopted, "train.py", "exec")
    assert "TrainingArguments(**settings, average_tokens_across_devices=False, use_cpu=not " in adopted


@pytest.mark.parametrize(
    ("given", "sets", "notes"),
    [
        ('save_strategy="steps"', False, 0),
        ("save_steps=10", False, 0),
        ("seed=1", True, 0),
        ("load_best_model_at_end=True", False, 1),
        ('save_strategy="no", max_steps=9', False, 1),
    ],
)
def test_checkpoints_are_saved_before_the_end_or_it_is_said(given: str, sets: bool, notes: int) -> None:
    adoption = adopt_text(TRAINER.replace('save_strategy="no"', given))
    assert ('save_strategy = "epoch"' in adoption.text) is sets
    assert len(adoption.obstacles) == notes


def test_an_option_of_the_script_for_its_checkpoints_is_not_resumed_from_by_hand() -> None:
    text = TRAINER.replace("set_seed(42)", PARSER).replace('"./results"', "args.ckpt_dir")
    adoption = adopt_text(text)
    roles = {each.option: each.role for each in adoption.profile.flags}
    assert roles["--ckpt_dir"] == "output"
    assert roles["--checkpoints"] == "checkpoints"
    assert "get_last_checkpoint(args.checkpoints)" in adoption.text


PARSER = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--ckpt_dir", default="./ckpt")
args = parser.parse_args()
"""


def test_what_the_script_resumes_from_itself_stays() -> None:
    resumes = TRAINER.replace("trainer.train()", "trainer.train(resume_from_checkpoint=None)")
    assert "resume_from_checkpoint=last_checkpoint or None" in adopt_text(resumes).text
    own = TRAINER.replace("trainer.train()", "trainer.train(resume_from_checkpoint=get_last_checkpoint('x'))")
    assert "checkpoints" not in adopt_text(own).text


@pytest.mark.parametrize("name", ["trainer_classifier", "trainer_language_model"])
def test_adopting_again_finds_the_same_outputs(name: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    first = adopt_text(script.read_text(encoding="utf-8"))
    again = adopt_text(first.text)
    specs = [
        make_project(ProjectRequest(each, script), tmp_path / "job", beside=False).files["train.yml"]
        for each in (first, again)
    ]
    assert [b"checkpoints: uri_folder" in each for each in specs] == [True, True]


def test_a_seed_of_the_script_decides_the_order_of_the_rows() -> None:
    plain = (SCRIPTS / "argparse_digits.py").read_text(encoding="utf-8")
    assert "DistributedSampler(train_rows, seed=args.seed)" in adopt_text(plain).text


HIDDEN = """\
import argparse

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Line(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def fit(model, batch_size, epochs):
    loader = DataLoader(TensorDataset(torch.randn(64, 3)), batch_size=batch_size, shuffle=True)
    trainer = pl.Trainer(max_epochs=epochs, logger=False, enable_progress_bar=False)
    trainer.fit(model, loader)
    print("steps", trainer.global_step, "epochs", trainer.current_epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    fit(Line(args.lr), args.batch_size, args.epochs)


if __name__ == "__main__":
    main()
"""


def test_lightning_in_a_function_without_the_options_reads_the_variable_of_the_job() -> None:
    adoption = adopt_text(HIDDEN)
    assert 'CHECKPOINTS = os.environ.get("AZURE_ML_OUTPUT_checkpoints")\n' in adoption.text
    assert 'ckpt_path="last" if CHECKPOINTS else None' in adoption.text
    assert adoption.profile.own_checkpoints


def test_lightning_that_fits_twice_is_not_resumed() -> None:
    """Which of the two an interrupted job was in is not known."""
    twice = HIDDEN.replace("    trainer.fit(model, loader)\n", "    trainer.fit(model, loader)\n" * 2)
    assert "ckpt_path" not in adopt_text(twice).text


@pytest.mark.parametrize("given", ["gradient_accumulation_steps=4", "gradient_accumulation_steps=1"])
def test_what_a_trainer_accumulates_is_of_the_plan(given: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINER.replace("logging_steps=4", given), encoding="utf-8")
    adoption = adopt_text(script.read_text(encoding="utf-8"))
    spec = make_project(ProjectRequest(adoption, script), tmp_path / "job", beside=False).files["train.yml"]
    known = given.endswith("4")
    passed = b"--gradient-accumulation-steps ${{plan.gradient_accumulation_steps}}"
    assert (passed in spec) is known
    assert (b"batch_size_per_device: 16\n      gradient_accumulation_steps: 4\n" in spec) is known
    assert (b"{batch_size: 64, " if known else b"{batch_size: 16, ") in spec


@pytest.mark.parametrize(
    ("split", "seeds"),
    [
        ("train, held = torch.utils.data.random_split(rows, [0.8, 0.2])", ["torch.manual_seed(0)"]),
        ("rows = rows.train_test_split(0.2)", ["torch.manual_seed(0)", "np.random.seed(0)"]),
        ("rows = rows.train_test_split(0.2, seed=1)", []),
    ],
)
def test_all_processes_split_the_rows_alike(split: str, seeds: list[str]) -> None:
    text = adopt_text(HIDDEN.replace("def fit(", f"rows = load()\n{split}\n\n\ndef fit(")).text
    assert [each for each in text.splitlines() if "seed(0)" in each] == seeds
    assert ("import numpy as np" in text) is (len(seeds) == 2)


def test_a_schedule_that_is_made_in_each_epoch_is_not_registered_before_them() -> None:
    text = (SCRIPTS.with_name("more") / "accelerate_patience.py").read_text(encoding="utf-8")
    made = "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
    assert "register_for_checkpointing(scheduler)" in adopt_text(text).text
    inside = text.replace(made, "").replace(
        "        loss = train_epoch", f"    {made}        loss = train_epoch"
    )
    assert "register_for_checkpointing" not in adopt_text(inside).text


def test_the_rank_is_defined_where_only_a_condition_reads_it() -> None:
    text = """\
from accelerate import Accelerator
import torch
from torch.utils.data import DataLoader, TensorDataset

rows = TensorDataset(torch.randn(64, 4))
loader = DataLoader(rows, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accelerator = Accelerator(cpu=True)
verbose = True
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
accelerator.load_state("before")
for epoch in range(2):
    for (x,) in loader:
        accelerator.backward(model(x).pow(2).mean())
        optimizer.step()
    if verbose:
        print(epoch)
"""
    adopted = adopt_text(text).text
    assert "    if RANK == 0 and verbose:\n" in adopted
    assert 'RANK = int(os.environ.get("RANK", "0"))\n' in adopted

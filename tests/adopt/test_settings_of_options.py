"""A dataclass that a script makes of all its options: ``Settings(**vars(parser.parse_args()))``."""

from __future__ import annotations

import pytest
from adopt_text import adopt_text

HEAD = """\
import argparse
import dataclasses
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    batch_size: int = 64
    lr: float = 1e-3
    epochs: int = 40
    seed: int = 42


"""
TRAINER = """\
class Trainer:
    def __init__(self, args):
        self.args = args
        self.loader = self.load()
        self.model = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr)

    def load(self):
        rows = TensorDataset(torch.rand(64, 4), torch.rand(64, 1))
        return DataLoader(rows, batch_size=self.args.batch_size, shuffle=True)

    def fit(self):
        for epoch in range(self.args.epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = (self.model(x) - y).pow(2).mean()
                loss.backward()
                self.optimizer.step()


"""
OPTIONS = """\
parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--seed", type=int, default=42)
"""
START = "torch.manual_seed(args.seed)\nTrainer(args).fit()\n"
MAKES = [
    "args = Settings(**vars(parser.parse_args()))\n",
    "opts = parser.parse_args()\nargs = Settings(**vars(opts))\n",
    "opts = vars(parser.parse_args())\nargs = Settings(**opts)\n",
]


def place(text: str, *, in_main: bool) -> str:
    """A text in a function that is called, or at the top of the file."""
    if not in_main:
        return text
    return "def main():\n" + "".join(f"    {line}\n" for line in text.splitlines()) + "\n\nmain()\n"


@pytest.mark.parametrize("in_main", [True, False])
@pytest.mark.parametrize("make", MAKES)
def test_random_numbers_follow_the_option_for_the_seed(make: str, *, in_main: bool) -> None:
    text = adopt_text(HEAD + TRAINER + place(OPTIONS + make + START, in_main=in_main)).text
    compile(text, "train.py", "exec")
    visible = [each for each in ("opts.seed", 'opts["seed"]') if each in text]
    first, own = (visible * 2) if visible and not in_main else ("args.seed", "self.args.seed")
    assert f"torch.manual_seed({first} + RANK)\n" in text
    assert f"DistributedSampler(rows, seed={own})" in text


@pytest.mark.parametrize("make", MAKES)
def test_settings_of_all_options_get_no_option_more(make: str) -> None:
    text = adopt_text(HEAD + TRAINER + place(OPTIONS + make + START, in_main=True)).text
    assert text.count("add_argument") == 4
    assert 'CHECKPOINTS = os.environ.get("AZURE_ML_OUTPUT_checkpoints")\n' in text


@pytest.mark.parametrize(
    ("taken", "added"), [("batch_size, lr, epochs, seed", 0), ("batch_size, lr, epochs, seed, **more", 1)]
)
def test_a_function_that_takes_each_option_by_its_name_gets_none_more(taken: str, added: int) -> None:
    start = "args = Settings(batch_size, lr, epochs, seed)\n" + START
    function = place(start, in_main=True).replace("main():", f"main({taken}):").partition("\n\nmain()")[0]
    call = "\n\nopts = parser.parse_args()\nmain(**vars(opts))\n"
    text = adopt_text(HEAD + TRAINER + function + "\n\n" + OPTIONS + call).text
    compile(text, "train.py", "exec")
    assert text.count("add_argument") == 4 + added


@pytest.mark.parametrize(
    "make",
    [
        *MAKES,
        "opts = parser.parse_args()\nargs = Settings(opts.batch_size, opts.lr, epochs=opts.epochs)\n",
        (
            "opts = parser.parse_args()\nargs = Settings()\nfor name, value in vars(opts).items():\n"
            "    setattr(args, name, value)\n"
        ),
        "opts = parser.parse_args()\nargs = dataclasses.replace(Settings(), **vars(opts))\n",
    ],
)
@pytest.mark.parametrize("default", ["64", "field(default=64)"])
def test_options_that_replace_the_fields_of_settings_are_known(make: str, default: str) -> None:
    head, options = HEAD.replace("int = 64", f"int = {default}"), OPTIONS.replace("=64", "=16")
    adoption = adopt_text(head + TRAINER + place(options + make + START, in_main=True))
    reported = [each.message for each in adoption.obstacles]
    assert not any("option" in each for each in reported)
    assert ("AZURE_ML_OUTPUT" in adoption.text) == ("**" in make)  # else an option more is none too many
    assert adoption.profile.batch_size == 16
    assert {each.option for each in adoption.profile.flags if each.role} - {"--checkpoints"} == {
        "--batch_size", "--lr", "--epochs", "--seed",
    }  # fmt: skip


def test_a_number_that_settings_keep_beside_an_option_is_reported() -> None:
    make = "opts = parser.parse_args()\nargs = Settings(lr=opts.lr, epochs=opts.epochs)\n"
    adoption = adopt_text(HEAD + TRAINER + place(OPTIONS + make + START, in_main=True))
    assert [each.message for each in adoption.obstacles if "size" in each.message] == [
        "this batch size is written out, beside an option for one"
    ]


def test_where_no_place_reads_the_seed_torch_knows_it() -> None:
    build = "def build():\n    return nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.1))\n\n\n"
    trainer = TRAINER.replace("self, args", "self, epochs, lr").replace(
        "self.args = args", "self.epochs = epochs"
    )
    trainer = trainer.replace("args.lr", "lr").replace("self.args.epochs", "self.epochs")
    trainer = trainer.replace("self.args.batch_size", "32")
    start = START.replace("Trainer(args)", "Trainer(args.epochs, args.lr)")
    text = adopt_text(HEAD + build + trainer + place(OPTIONS + MAKES[0] + start, in_main=True)).text
    assert "torch.manual_seed(torch.initial_seed() + RANK)\n" in text


LOOPS = [
    (
        "for name, field in Settings.__dataclass_fields__.items():",
        'f"--{name}", type=field.type, default=field.default',
    ),
    ("for f in dataclasses.fields(Settings):", 'f"--{f.name}", type=f.type, default=f.default'),
    (
        "for f in dataclasses.fields(Settings()):",
        '"--" + f.name, type=f.type, default=getattr(Settings, f.name)',
    ),
    (
        "for name, kind in Settings.__annotations__.items():",
        'f"--{name}", type=kind, default=getattr(Settings, name)',
    ),
    (
        "for name, value in dataclasses.asdict(Settings()).items():",
        '"--" + name, type=type(value), default=value',
    ),
    ("for f in Settings.__dataclass_fields__.values():", "f\"--{f.name.replace('_', '-')}\", type=f.type"),
]


def declare(loop: str, given: str) -> str:
    return f"parser = argparse.ArgumentParser()\n{loop}\n    parser.add_argument({given})\n"


@pytest.mark.parametrize(("loop", "given"), LOOPS)
def test_options_of_a_loop_over_fields_are_read(loop: str, given: str) -> None:
    start = place(declare(loop, given) + MAKES[0] + START, in_main=True)
    adoption = adopt_text(HEAD + TRAINER + start)
    flags = {each.role: each for each in adoption.profile.flags}
    hyphen = "-" if "replace" in given else "_"
    assert flags["batch_size"].option == f"--batch{hyphen}size"
    assert [(flags[role].type, flags[role].default) for role in ("epochs", "learning_rate")] == (
        [("int", 40), ("float", 1e-3)] if "default" in given else [("int", None), ("float", None)]
    )
    assert not any("option" in each.message for each in adoption.obstacles)


def test_an_option_more_is_declared_behind_the_loop() -> None:
    make = "args = parser.parse_args()\n"
    adoption = adopt_text(HEAD + TRAINER + place(declare(*LOOPS[0]) + make + START, in_main=True))
    assert '    parser.add_argument(\n        "--checkpoints", ' in adoption.text
    assert not any("option" in each.message for each in adoption.obstacles)


def test_options_that_cannot_be_read_are_reported_once() -> None:
    loop = declare("for name in open('options.txt'):", '"--" + name')
    adoption = adopt_text(HEAD + TRAINER + place(loop + MAKES[0] + START, in_main=True))
    assert [each.message for each in adoption.obstacles if "option" in each.message] == [
        "which options are declared here cannot be read, so the spec sets no number by them"
    ]

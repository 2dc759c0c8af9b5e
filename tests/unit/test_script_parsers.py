"""A command against scripts that read it with click, typer, fire or dataclasses of transformers."""
# ruff: noqa: E501 - a command in one line

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

JOB = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
command: >-
  python train.py {words}
code: ./src
environment: azureml:training:7
compute: azureml:cpu-cluster
"""
CLICK = """import click
@click.command()
@click.argument("source", type=click.Path())
@click.option("--lr", "-l", type=float, required=True)
@click.option("--epochs", default=3, show_default=True)
@click.option("--size", type=click.Choice(["small", "large"]))
@click.option("--rows", type=click.IntRange(1, 64))
@click.option("--amp/--no-amp", default=False)
@click.option("--debug", is_flag=True)
@click.option("--tag", multiple=True)
@click.option("--crop", nargs=2, type=int)
@click.option("-v", "--verbose", count=True)
@click.option("--data", envvar="DATA", required=True)
def main(**options):
    print(options)
if __name__ == "__main__":
    main()
"""
GROUP = """import click
@click.group()
@click.option("--debug", is_flag=True)
def cli(debug):
    pass
@cli.command()
@click.option("--epochs", type=int, required=True)
def train(epochs):
    print(epochs)
@cli.command("export")
@click.argument("target")
def write(target):
    print(target)
@click.command()
def evaluate_all():
    pass
cli.add_command(evaluate_all)
cli()
"""
DECORATED = CLICK.replace("@click.argument", "@shared\n@click.argument").replace(
    "@click.command()", "def shared(f):\n    return click.option('--other')(f)\n@click.command()"
)
OTHERS = CLICK.replace(
    "@click.command()",
    '@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})',
)
TYPER = """from enum import Enum
from typing import Annotated, List, Optional
import typer
class Size(str, Enum):
    small = "small"
    large = "large"
def main(source: str, lr: float = typer.Option(...), batch_size: int = 16, amp: bool = False, size: Size = Size.small,
         rows: Annotated[int, typer.Option("--rows", "-r", min=1, max=64)] = 8, tag: Optional[List[str]] = None,
         more: str = typer.Argument("x"), seed: Annotated[Optional[int], typer.Option(envvar="SEED")] = None):
    print(source)
if __name__ == "__main__":
    typer.run(main)
"""
APPLICATION = """import typer
app = typer.Typer()
@app.command()
def fit_model(epochs: int, fast: bool = True):
    print(epochs)
@app.command("export")
def write(path: str = "x"):
    print(path)
if __name__ == "__main__":
    app()
"""
FIRE = """import fire
def train(data, base_model="gpt2", epochs=3, fast=False):
    print(data)
if __name__ == "__main__":
    fire.Fire(train)
"""
FIRE_CLASS = """import fire
class Trainer:
    def __init__(self, depth=2):
        self.depth = depth
    def fit(self, data, steps=1):
        print(steps)
fire.Fire(Trainer)
"""
FIRE_ALL = (
    "import fire\ndef train(lr=1):\n    print(lr)\ndef evaluate(split):\n    print(split)\nfire.Fire()\n"
)
FIRE_NAMES = FIRE_ALL.replace("Fire()", 'Fire({"fit": train})')
DATACLASSES = """from dataclasses import dataclass, field
from typing import List, Literal, Optional
from transformers import HfArgumentParser
@dataclass
class Base:
    model: str
    seed: int = 0
@dataclass
class Model(Base):
    method: Literal["linear", "slerp"] = "linear"
    lower_case: bool = True
    layers: List[int] = field(default_factory=list)
@dataclass
class Data:
    rate: Optional[float] = field(default=None, metadata={"help": "x"})
    rows: int = field(default=1)
model, data = HfArgumentParser((Model, Data)).parse_args_into_dataclasses()
"""
FROM_FILE = DATACLASSES.replace(
    "model, data = HfArgumentParser((Model, Data)).parse_args_into_dataclasses()",
    "import sys\np = HfArgumentParser((Model, Data))\nif len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n    r = p.parse_json_file(sys.argv[1])\nelse:\n    r = p.parse_args_into_dataclasses()",
)
TRAINING = DATACLASSES.replace("HfArgumentParser((", "HfArgumentParser((TrainingArguments, ").replace(
    "import HfArgumentParser", "import HfArgumentParser, TrainingArguments"
)
EXCLUSIVE = """import argparse
p = argparse.ArgumentParser()
g = p.add_mutually_exclusive_group(required=True)
g.add_argument("--train", action="store_true")
g.add_argument("--test", action="store_true")
p.add_argument("--num-epochs", type=int)
p.add_argument("--num-workers", type=int)
s = p.add_subparsers(required=True)
s.add_parser("plan", aliases=["p"]).add_argument("--horizon", type=int)
for word in ("fit", "predict"):
    s.add_parser(word)
p.parse_args()
"""

WRONG = {
    "click: unknown": (CLICK, "x --lr 1 --epoch 3", "WS940"),
    "click: underscore": (CLICK, "x --lr 1 --no_amp", "WS940"),
    "click: missing": (CLICK, "x --epochs 3", "WS941"),
    "click: argument missing": (CLICK, "--lr 1", "WS941"),
    "click: second argument": (CLICK, "x y --lr 1", "WS940"),
    "click: choice": (CLICK, "x --lr 1 --size medium", "WS942"),
    "click: range": (CLICK, "x --lr 1 --rows 65", "WS942"),
    "click: type of the default": (CLICK, "x --lr 1 --epochs 1.5", "WS942"),
    "click: flag with a value": (CLICK, "--lr 1 --debug true x", "WS940"),
    "click: two values": (CLICK, "x --lr 1 --crop 3", "WS942"),
    "click: type": (CLICK, "x --lr fast", "WS942"),
    "group: unknown command": (GROUP, "fit --epochs 1", "WS942"),
    "group: option of the group": (GROUP, "train --epochs 1 --debug", "WS940"),
    "group: missing of a command": (GROUP, "train", "WS941"),
    "group: no command": (GROUP, "--debug", "WS941"),
    "group: argument": (GROUP, "export", "WS941"),
    "typer: underscore": (TYPER, "x --lr 1 --batch_size 3", "WS940"),
    "typer: argument as option": (TYPER, "--source x --lr 1 y", "WS940"),
    "typer: required option": (TYPER, "x", "WS941"),
    "typer: boolean with a value": (TYPER, "a b --lr 1 --amp true", "WS940"),
    "typer: enum": (TYPER, "x --lr 1 --size medium", "WS942"),
    "typer: range": (TYPER, "x --lr 1 -r 0", "WS942"),
    "typer: type": (TYPER, "x --lr 1 --batch-size 1.5", "WS942"),
    "typer: command": (APPLICATION, "fit 3", "WS942"),
    "typer: no command": (APPLICATION, "", "WS941"),
    "typer: option of a command": (APPLICATION, "fit-model 3 --path x", "WS940"),
    "typer: argument of a command": (APPLICATION, "fit-model", "WS941"),
    "fire: unknown": (FIRE, "--data x --epoch 3", "WS940"),
    "fire: missing": (FIRE, "--epochs 3", "WS941"),
    "fire: method": (FIRE_CLASS, "train --steps 3", "WS942"),
    "fire: flag of a method": (FIRE_CLASS, "fit x --step 3", "WS940"),
    "fire: missing of a method": (FIRE_CLASS, "fit --steps 3", "WS941"),
    "fire: command": (FIRE_ALL, "trian --lr 1", "WS942"),
    "fire: missing of a function": (FIRE_ALL, "evaluate", "WS941"),
    "fire: name": (FIRE_NAMES, "train --lr 1", "WS942"),
    "dataclass: unknown": (DATACLASSES, "--model x --pooling mean", "WS940"),
    "dataclass: missing of a base": (DATACLASSES, "--seed 1", "WS941"),
    "dataclass: literal": (DATACLASSES, "--model x --method mean", "WS942"),
    "dataclass: optional number": (DATACLASSES, "--model x --rate fast", "WS942"),
    "dataclass: one of a list": (DATACLASSES, "--model x --layers 1 x", "WS942"),
    "dataclass: also from a file": (FROM_FILE, "--model x --row 1 --wrong 2", "WS940"),
    "dataclass: beside those of the library": (TRAINING, "--output_dir x", "WS941"),
    "words: index": ("import sys\nprint(sys.argv[1], sys.argv[2])\n", "a", "WS941"),
    "words: unpacked": ("from sys import argv\na, b = map(str, argv[1:])\n", "a", "WS941"),
    "argparse: exclusive": (EXCLUSIVE, "--train --test fit", "WS942"),
    "argparse: none of a required group": (EXCLUSIVE, "fit", "WS941"),
    "argparse: ambiguous": (EXCLUSIVE, "--train --num 3 fit", "WS942"),
    "argparse: no command": (EXCLUSIVE, "--train", "WS941"),
    "argparse: command of a loop": (EXCLUSIVE, "--train train", "WS942"),
}
RIGHT = {
    "click": (CLICK, "x -l 1 --epochs 3 --size small --rows 64 --no-amp --debug --tag a --tag b --crop 3 4 -vv"),
    "click: negative": (CLICK, "x --lr -1"),
    "click: equals": (CLICK, "x --lr=1 --rows=1 --data=y"),
    "click: own decorator": (DECORATED, "x --lr 1 --other 3"),
    "click: passes others on": (OTHERS, "x --lr 1 --other 3"),
    "group": (GROUP, "--debug train --epochs 3"),
    "group: argument": (GROUP, "export here"),
    "group: added command": (GROUP, "evaluate-all"),
    "group: added elsewhere": (GROUP.replace("cli.add_command", "import more\nmore.add(cli)\nprint"), "other"),
    "group: in a loop": (GROUP.replace("cli.add_command(evaluate_all)", "for c in cs:\n    cli.add_command(c)"), "other"),
    "typer": (TYPER, "x --lr 1 --batch-size 3 --no-amp --size large -r 64 --tag a --tag b"),
    "typer: its context": (TYPER.replace("def main(", "def main(context: typer.Context, "), "x --lr 1"),
    "typer: command": (APPLICATION, "fit-model 3 --no-fast"),
    "typer: another application": (APPLICATION.replace("if __name__", "app.add_typer(other, name='x')\nif __name__"), "x"),
    "fire": (FIRE, "x --base-model y --epochs=3 --fast"),
    "fire: keywords": (FIRE.replace("fast=False", "**more"), "--data x --other 1"),
    "fire: by position": (FIRE, "x y 3 True"),
    "fire: short and negated": (FIRE, "-d x --nofast"),
    "fire: method": (FIRE_CLASS, "fit --depth 3 x --steps 1"),
    "fire: flag before the method": (FIRE_CLASS, "--depth 3 fit --data x"),
    "fire: what is returned": (FIRE, "x - upper"),
    "fire: all": (FIRE_ALL, "evaluate test"),
    "fire: name": (FIRE_NAMES, "fit --lr 1"),
    "dataclass": (DATACLASSES, "--model x --lower-case false --layers 1 2 --rate 0.1 --ro 3 --method slerp"),
    "dataclass: negated": (DATACLASSES, "--model x --no_lower_case"),
    "dataclass: from a file": (FROM_FILE, "settings.json"),
    "dataclass: of the library": (TRAINING, "--model x --output_dir out --learning_rate 1e-4"),
    "dataclass: others": (DATACLASSES.replace("dataclasses()", "dataclasses(return_remaining_strings=True)"), "--model x --other 1"),
    "argparse": (EXCLUSIVE, "--train --num-e 3 p --horizon 2"),
    "words": ("import sys\nprint(sys.argv[1], sys.argv[0])\n", "a"),
    "words: counted": ("import sys\nif len(sys.argv) > 2:\n    print(sys.argv[2])\n", "a"),
    "words: caught": ("import sys\ntry:\n    print(sys.argv[2])\nexcept IndexError:\n    pass\n", "a"),
    "words: of a variable": ("import sys\nprint(sys.argv[2])\n", "$ALL"),
    "two libraries": (CLICK + "import typer\ntyper.run(main)\n", "--what"),
    "called with words": (CLICK.replace("    main()", "    main(['x', '--lr', '1'])"), "--what"),
}  # fmt: skip


def check(folder: Path, script: str, words: str) -> list[str]:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(script)
    (folder / "job.yml").write_text(JOB.format(words=words))
    codes = [one.code for one in worldsize.check(folder / "job.yml").diagnostics]
    return [code for code in codes if code.startswith("WS94") or code == "WS000"]


@pytest.mark.parametrize("name", WRONG)
def test_a_contradiction_is_found(name: str, tmp_path: Path) -> None:
    script, words, expected = WRONG[name]
    assert check(tmp_path, script, words) == [expected]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_reported(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, *RIGHT[name]) == []

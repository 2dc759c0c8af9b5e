"""A command against the interface of its script: what is wrong is said, what may be right is not."""
# ruff: noqa: E501, ISC004 - a script in one line

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.base.source import Source
from worldsize.scripts.interface.argparse import refuses_rest
from worldsize.scripts.module import parse_module

JOB = """$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: train
version: 1
type: command
command: >-
  {command}
code: ./src
environment: azureml:training:7
inputs:
  data: {{type: uri_folder}}
  name: {{type: string}}
  count: {{type: integer, default: 3}}
  rate: {{type: number, default: 0.5}}
  flag: {{type: boolean, default: true}}
  extra: {{type: string, optional: true}}
outputs:
  model: {{type: uri_folder}}
"""
HEAD = "import argparse\np = argparse.ArgumentParser()\n"
PLAIN = (
    HEAD
    + "p.add_argument('--data', required=True)\np.add_argument('--lr', '-l', type=float)\n"
    + "p.add_argument('--epochs', type=int)\np.add_argument('--model', choices=['cnn', 'mlp'])\n"
    + "p.add_argument('--amp', action='store_true')\na = p.parse_args()\nprint(a)\n"
)
IN_FUNCTION = (
    "import argparse\ndef get_parser():\n    parser = argparse.ArgumentParser(add_help=False)\n"
    "    group = parser.add_argument_group('g')\n    group.add_argument('--lr', type=float)\n"
    "    return parser\ndef add_more(parser):\n    parser.add_argument('--epochs', type=int, required=True)\n"
    "def main(argv=None):\n    parser = argparse.ArgumentParser(parents=[get_parser()])\n    add_more(parser)\n"
    "    args = parser.parse_args(argv)\n    print(args)\nif __name__ == '__main__':\n    main()\n"
)
IN_CLASS = (
    "import argparse\nclass Options:\n    def __init__(self):\n"
    "        self.parser = argparse.ArgumentParser()\n        self.add()\n"
    "    def add(self):\n        self.parser.add_argument('--lr', type=float)\n"
    "    def parse(self):\n        return self.parser.parse_args()\nprint(Options().parse())\n"
)
IN_LOOP = (
    HEAD
    + "for name, kind in (('lr', float), ('decay', float)):\n    p.add_argument(f'--{name}', type=kind)\n"
    "SIZES = ['small', 'large']\np.add_argument('--size', choices=SIZES)\np.parse_args()\n"
)
POSITIONAL = (
    HEAD
    + "p.add_argument('source')\np.add_argument('count', type=int)\np.add_argument('--v', action='count')\n"
    "p.parse_args()\n"
)
COMMANDS = (
    HEAD
    + "s = p.add_subparsers(dest='command')\nt = s.add_parser('train')\nt.add_argument('--lr', type=float)\n"
    "e = s.add_parser('evaluate')\ne.add_argument('--split', required=True)\np.parse_args()\n"
)
ELSEWHERE = "from options.build import build\nargs = build().parse_args()\nprint(args)\n"
BUILD = "import argparse\ndef build():\n    p = argparse.ArgumentParser()\n    p.add_argument('--lr')\n    return p\n"
OTHER_MAIN = (
    "from options import tool\nimport argparse\ndef main():\n    p = argparse.ArgumentParser()\n"
    "    p.add_argument('--lr')\n    p.parse_args()\nmain()\n"
)
TOOL = (
    "import argparse\ndef main():\n    p = argparse.ArgumentParser()\n    p.add_argument('--x', required=True)\n"
    "    p.parse_args()\nif __name__ == '__main__':\n    main()\n"
)
SWITCH = HEAD + "p.add_argument('--amp', action=argparse.BooleanOptionalAction)\np.parse_args()\n"

WRONG = {
    "unknown flag": (PLAIN, "--data d --learning-rate 1", "WS940"),
    "underscore for hyphen": (HEAD + "p.add_argument('--a-b')\np.parse_args()\n", "--a_b 1", "WS940"),
    "unknown short flag": (PLAIN, "--data d -x 1", "WS940"),
    "extra word": (PLAIN, "--data d more", "WS940"),
    "missing": (PLAIN, "--lr 1", "WS941"),
    "fraction for int": (PLAIN, "--data d --epochs 1.5", "WS942"),
    "exponent for int": (PLAIN, "--data d --epochs 1e3", "WS942"),
    "word for float": (PLAIN, "--data d --lr=fast", "WS942"),
    "folder for float": (PLAIN, "--data d --lr ${{inputs.data}}", "WS942"),
    "boolean for int": (PLAIN, "--data d --epochs ${{inputs.flag}}", "WS942"),
    "fraction of an input": (PLAIN, "--data d --epochs ${{inputs.rate}}", "WS942"),
    "choice": (PLAIN, "--data d --model rnn", "WS942"),
    "choice in another case": (PLAIN, "--data d --model CNN", "WS942"),
    "no value": (PLAIN, "--data --lr 1", "WS942"),
    "no value at the end": (PLAIN, "--data d --lr", "WS942"),
    "value for a switch": (PLAIN, "--data d --amp True", "WS942"),
    "input for a switch": (PLAIN, "--data d --amp ${{inputs.flag}}", "WS942"),
    "equals for a switch": (PLAIN, "--data d --amp=true", "WS942"),
    "quoted": (PLAIN, "--data 'a b' --epochs '2.5'", "WS942"),
    "in a function": (IN_FUNCTION, "--epochs 1 --lrr 1", "WS940"),
    "missing of a helper": (IN_FUNCTION, "--lr 1", "WS941"),
    "in a class": (IN_CLASS, "--rate 1", "WS940"),
    "in a loop": (IN_LOOP, "--lr 1 --dekay 1", "WS940"),
    "constant choices": (IN_LOOP, "--size medium", "WS942"),
    "positional": (POSITIONAL, "a b", "WS942"),
    "positional missing": (POSITIONAL, "a", "WS941"),
    "positional too many": (POSITIONAL, "a 1 2", "WS940"),
    "command": (COMMANDS, "trian --lr 1", "WS942"),
    "flag of a command": (COMMANDS, "train --split x", "WS940"),
    "missing of a command": (COMMANDS, "evaluate", "WS941"),
    "another module": (ELSEWHERE, "--epochs 1", "WS940"),
    "not of the other program": (OTHER_MAIN, "--x 1", "WS940"),
    "switch with a value": (SWITCH, "--amp true", "WS942"),
    "choices without type": (
        HEAD + "p.add_argument('--n', choices=[1, 2])\np.parse_args()\n",
        "--n 1",
        "WS942",
    ),
    "nargs": (HEAD + "p.add_argument('--n', nargs=2, type=int)\np.parse_args()\n", "--n 1", "WS942"),
    "list": (HEAD + "p.add_argument('--n', nargs='+', type=int)\np.parse_args()\n", "--n 1 x", "WS942"),
    "value of known arguments": (PLAIN.replace("parse_args", "parse_known_args"), "--data d --lr x", "WS942"),
    "local rank of a launcher": (PLAIN, ("deepspeed train.py --data d", "deepspeed"), "WS940"),
}
RIGHT = {
    "all": (PLAIN, "--data ${{inputs.data}} --lr 1e-3 --epochs ${{inputs.count}} --model mlp --amp"),
    "short forms": (PLAIN, "--da d -l1 -l=2 -l -0.5 --ep 3"),
    "equals": (PLAIN, "--data=${{inputs.data}} --lr='0.1'"),
    "in a section": (PLAIN, "--data d $[[--model ${{inputs.extra}}]]"),
    "unknown words": (PLAIN, "--data d ${{inputs.name}}"),
    "unknown text in place of all": (PLAIN, "${{inputs.name}}"),
    "variables": (PLAIN, "--data $DATA $MORE"),
    "substitution": (PLAIN, "--data $(cat a --b) --lr `echo 1 --x`"),
    "redirection": (PLAIN, "--data d > log.txt 2>&1 < in.txt"),
    "then another": (PLAIN, "--data d && echo --wrong; ls -la | tee x"),
    "comment": (PLAIN, "--data d # --wrong"),
    "glob": (HEAD + "p.add_argument('files', nargs='*')\np.parse_args()\n", "data/*.csv more"),
    "known arguments": (PLAIN.replace("parse_args", "parse_known_args"), "--data d --other 1 more"),
    "list of its own": (PLAIN.replace("parse_args()", "parse_args(['--data', 'x'])"), "--other"),
    "changed arguments": ("import sys\nsys.argv.append('--data')\n" + PLAIN, "--other"),
    "function with names": (HEAD + "def add(n):\n    p.add_argument(n)\nadd('--a')\np.parse_args()\n", "--a 1"),
    "starred": (HEAD + "names = load()\np.add_argument(*names)\np.parse_args()\n", "--a 1"),
    "given away": (HEAD + "import other\nother.add_options(p)\np.parse_args()\n", "--a 1"),
    "in a list": (HEAD + "for each in [p]:\n    each.add_argument('--a')\np.parse_args()\n", "--a 1"),
    "in a closure": (
        "import argparse\ndef main():\n    p = argparse.ArgumentParser()\n    def add(*a):\n"
        "        p.add_argument('--a')\n    add()\n    p.parse_args()\nmain()\n",
        "--a 1",
    ),
    "only sometimes required": (
        HEAD + "import os\nif os.name == 'nt':\n    p.add_argument('--a', required=True)\np.parse_args()\n",
        "",
    ),
    "default for a missing one": (HEAD + "p.add_argument('x', nargs='?')\np.parse_args()\n", ""),
    "rest": (HEAD + "p.add_argument('x', nargs=argparse.REMAINDER)\np.parse_args()\n", "a b --c"),
    "custom action": (HEAD + "p.add_argument('--a', action=Pairs)\np.parse_args()\n", "--a x=1 y=2"),
    "own type": (HEAD + "p.add_argument('--a', type=parse, choices=[1])\np.parse_args()\n", "--a one"),
    "double dash": (POSITIONAL, "-- -a 1"),
    "negative number": (POSITIONAL, "a -1"),
    "in a function": (IN_FUNCTION, "--epochs 1 --lr 2"),
    "in a class": (IN_CLASS, "--lr 1"),
    "in a loop": (IN_LOOP, "--decay 1 --size large"),
    "command": (COMMANDS, "train --lr 1"),
    "another module": (ELSEWHERE, "--lr 1"),
    "the other program": (OTHER_MAIN, "--lr 1"),
    "switch": (SWITCH, "--no-amp"),
    "subclass": (PLAIN.replace("argparse.Arg", "Arg").replace("p =", "class ArgumentParser(argparse.Namespace): pass\np =", 1), "--x"),
    "config file": (PLAIN.replace("import argparse", "import configargparse as argparse"), ""),
    "several parsers": (PLAIN + "q = argparse.ArgumentParser()\nq.add_argument('--z')\nq.parse_known_args()\n", "--z 1"),
    "not parsed in a notebook": (PLAIN.replace("a = p.parse_args()", "a = p.parse_args() if x else None"), "--z 1"),
    "deepspeed": (HEAD + "import deepspeed\np.add_argument('--local_rank')\ndeepspeed.add_config_arguments(p)\np.parse_args()\n", ("deepspeed train.py --deepspeed --deepspeed_config c.json", "deepspeed")),
    "no parser": ("print(1)\n", "--what 1"),
}  # fmt: skip

CODES = ("WS000", "WS940", "WS941", "WS942", "WS943")


def check(folder: Path, script: str, words: str | tuple[str, str]) -> list[str]:
    (folder / "src" / "options").mkdir(parents=True)
    for name, text in (("train.py", script), ("options/build.py", BUILD), ("options/tool.py", TOOL)):
        (folder / "src" / name).write_text(text)
    command = f"python train.py {words}" if isinstance(words, str) else words[0]
    (folder / "component.yml").write_text(JOB.format(command=command))
    report = worldsize.check(folder / "component.yml")
    return [one.code for one in report.diagnostics if one.code in CODES]


def test_what_may_be_left_out_is_not_missing(tmp_path: Path) -> None:
    script = POSITIONAL.replace("'count', type=int", "'count', nargs='?'")
    assert check(tmp_path, script, "") == ["WS941"]
    found = worldsize.check(tmp_path / "component.yml").diagnostics
    missing = next(each for each in found if each.code == "WS941")
    assert "needs `source`, which the command" in missing.message


@pytest.mark.parametrize("name", WRONG)
def test_a_contradiction_is_found(name: str, tmp_path: Path) -> None:
    script, words, expected = WRONG[name]
    assert check(tmp_path, script, words) == [expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [("--dataset d", ["WS940"]), ("--rows d", ["WS940"]), ("--verbose --lr 1", ["WS941", "WS940"])],
)
def test_the_only_argument_that_is_missing_is_the_unknown_one_that_has_a_value(
    words: str, expected: list[str], tmp_path: Path
) -> None:
    assert sorted(check(tmp_path, PLAIN, words)) == sorted(expected)


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_right_is_not_reported(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, *RIGHT[name]) == []


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node 4 train.py --wrong 1",
        "torchrun --nproc_per_node=$GPUS train.py --wrong 1",
        "python -m torch.distributed.run --nnodes ${{inputs.count}} train.py --wrong 1",
        "accelerate launch --config_file c.yaml train.py --wrong 1",
        "mpirun -np 2 python train.py --wrong 1",
        "cd . && CUDA_VISIBLE_DEVICES=0 python -u train.py --wrong 1",
        "pip install -r requirements.txt; python -m train --wrong 1",
        'bash -c "set -e; python train.py --wrong 1"',
        "exec python ./train.py --wrong 1 > log",
    ],
)
def test_the_words_behind_the_script_are_found(command: str, tmp_path: Path) -> None:
    assert check(tmp_path, HEAD + "p.add_argument('--lr')\np.parse_args()\n", (command, "")) == ["WS940"]


OUTPUT = (
    HEAD + "from pathlib import Path\nimport os\np.add_argument('--model', type=Path)\na = p.parse_args()\n"
)
UNUSED = [
    "",
    "print('to', a.model)\n",
    "m = a.model\nos.makedirs(m)\n",
    "a.model.mkdir()\nprint(f'{a.model}')\n",
]
USED = [
    "a.model.write_text('x')\n",
    "open(a.model / 'm', 'w')\n",
    "m = Path(a.model)\n(m / 'x').touch()\n",
    "def save(args):\n    args.model.joinpath('x').write_text('y')\nsave(a)\n",
    "print(a.model)\nother = vars(a)\n",
    "import mystery\nmystery.run(a)\n",
    "m = str(a.model)\nos.system('cp x ' + m)\n",
    "with open(os.path.join(a.model, 'x'), 'w') as f:\n    f.write('y')\n",
]


@pytest.mark.parametrize("lines", [*UNUSED, *USED])
def test_an_output_that_the_script_never_writes_is_found(lines: str, tmp_path: Path) -> None:
    found = check(tmp_path, OUTPUT + lines, "--model ${{outputs.model}}")
    assert found == (["WS943"] if lines in UNUSED else [])


@pytest.mark.parametrize(
    ("then", "refuses"),
    [
        ("if rest: raise ValueError(rest)", True),
        ("if len(rest) > 0: parser.error('what?')", True),
        ("if not len(rest) == 0: sys.exit(2)", True),
        ("assert not rest", True),
        ("assert len(rest) == 0", True),
        ("if not rest: sys.exit(2)", False),
        ("if rest: print(rest)", False),
        ("if rest: other.error('what?')", False),
        ("if len(rest) > 1: sys.exit(2)", False),
        ("assert rest", False),
    ],
)
def test_what_is_left_over_may_stop_a_script(then: str, refuses: bool) -> None:
    text = f"import sys\nargs, rest = parser.parse_known_args()\n{then}\n"
    module = parse_module(Source("train.py", text))
    assert module is not None
    (call,) = module.called("parse_known_args")
    assert refuses_rest(module, call) is refuses

"""Commands that a shell script runs: a plain script is read, any other says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

JOB = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
command: >-
  {command}
code: ./src
environment: azureml:training:7
compute: azureml:cpu-cluster
"""
SCRIPT = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\np.add_argument('--data', required=True)\np.parse_args()\n"  # noqa: E501
PLAIN = '#!/bin/bash\nset -euo pipefail\n# start\npip install -q tqdm\npython train.py --data d "$@"\n'
NUMBERED = "DATA=$1\npython train.py --data $DATA --lr ${2}\n"
CASES = {
    "words passed on": ("bash run.sh --rate 1", PLAIN, [("WS940", "job.yml", 4)]),
    "words that are right": ("bash run.sh --lr 1", PLAIN, []),
    "own words": ("bash run.sh", PLAIN.replace("--data d", "--dota d"), [("WS940", "src/run.sh", 5)]),
    "made executable": ("chmod +x run.sh && ./run.sh --lr x", PLAIN, [("WS942", "job.yml", 4)]),
    "options of the shell": ("sh -eux -o pipefail ./run.sh --lr x", PLAIN, [("WS942", "job.yml", 4)]),
    "sourced": ("source run.sh --lr x", PLAIN, [("WS942", "job.yml", 4)]),
    "in a folder": ("cd sub && bash ../src/run.sh --lr x", PLAIN, []),
    "by number": ("bash run.sh d fast", NUMBERED, [("WS942", "job.yml", 4)]),
    "by number and right": ("bash run.sh d 0.1", NUMBERED, []),
    "too few": ("bash run.sh d", NUMBERED, []),
    "with a launcher": (
        "bash run.sh --rate 1",
        PLAIN.replace("python", "accelerate launch --num_processes 2"),
        [("WS940", "job.yml", 4)],
    ),
    "through another script": ("bash run.sh --rate 1", 'bash more.sh "$@"\n', [("WS940", "job.yml", 4)]),
    "several words in a variable": ("bash run.sh", 'A="--data d --lr 1"\npython train.py $A\n', []),
    "a variable that changes": ("bash run.sh", "A=--x\nA=--data\npython train.py $A d\n", []),
    "a condition": ("bash run.sh --rate 1", PLAIN.replace("pip", 'if [ -n "$X" ]; then exit; fi\npip'), []),
    "shifted": ("bash run.sh d --rate 1", 'D=$1\nshift\npython train.py --data $D "$@"\n', []),
    "a function": ("bash run.sh --rate 1", 'f() { python train.py "$@"; }\nf --data d\n', []),
    "a script that is not there": ("bash other.sh --rate 1", PLAIN, []),
}


@pytest.mark.parametrize("name", CASES)
def test_commands_of_a_shell_script(name: str, tmp_path: Path) -> None:
    command, shell, expected = CASES[name]
    (tmp_path / "src").mkdir()
    for file, text in (("train.py", SCRIPT), ("run.sh", shell), ("more.sh", PLAIN)):
        (tmp_path / "src" / file).write_text(text)
    (tmp_path / "job.yml").write_text(JOB.format(command=command))
    found = [
        (one.code, Path(one.span.path).resolve().relative_to(tmp_path.resolve()).as_posix(), one.span.line)
        for one in worldsize.check(tmp_path / "job.yml").diagnostics
        if one.code.startswith("WS94")
    ]
    assert found == expected or (len(found) > len(expected) == 1 and found[0] == expected[0])

"""What fixes write into a training script: one line, with its indentation and its names, or nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from worldsize.checking import fixing

JOB = """\
type: command
command: python train.py {flags}
code: .
environment: azureml:e:1
compute: azureml:c
resources: {{instance_count: 2, shm_size: 16g}}
limits: {{timeout: 3600}}
distribution: {{type: {kind}}}
"""
PYTORCH = "pytorch, process_count_per_instance: 2"
MPI = "mpi, process_count_per_instance: 2"
HEAD = """\
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fixed(script: str, *, kind: str = PYTORCH, flags: str = "", unsafe: bool = True) -> str:
    Path("job.yml").write_text(JOB.format(kind=kind, flags=flags))
    Path("train.py").write_text(script)
    report = fixing.fix("job.yml", unsafe=unsafe).report
    text = Path("train.py").read_text()
    ast.parse(text)
    assert fixing.fix("job.yml", unsafe=unsafe).changes == ()
    assert not [each for each in report.diagnostics if each.fix is not None and (unsafe or each.fix.safe)]
    return text


def changed_lines(before: str, **options: str | bool) -> list[str]:
    """The lines of the fixed script that the given one does not have."""
    old = before.splitlines()
    return [line for line in fixed(before, **options).splitlines() if line not in old]  # type: ignore[arg-type]


SAMPLER = """\
sampler = DistributedSampler(rows)
loader = DataLoader(rows, sampler=sampler)
for epoch in range(3):
    for batch in loader:
        step(batch)
"""
EPOCHS = {
    "at the top": (SAMPLER, "    sampler.set_epoch(epoch)"),
    "other names": (
        SAMPLER.replace("sampler", "train_rows").replace(", train_rows=", ", sampler=")
        .replace("epoch", "n").replace("range(3)", "range(num_epochs)"),
        "    train_rows.set_epoch(n)",
    ),
    "a tab": (SAMPLER.replace("    ", "\t"), "\tsampler.set_epoch(epoch)"),
    "two blanks in a function": (
        "def train(rows):\n" + "".join(f"  {line}\n" for line in SAMPLER.replace("    ", "  ").splitlines()),
        "    sampler.set_epoch(epoch)",
    ),
    "inside the loader": (
        SAMPLER.partition("\n")[2].replace("sampler=sampler", "sampler=DistributedSampler(rows)"),
        "    loader.sampler.set_epoch(epoch)",
    ),
    "the sampler of another function": (SAMPLER.replace("sampler = ", "def make():\n    return "), None),
    "two samplers of one name": (SAMPLER.replace("loader", "sampler = Other(rows)\nloader", 1), None),
    "a sampler only in some case": (SAMPLER.replace("sampler = ", "if distributed:\n    sampler = "), None),
    "no number of the epoch": (SAMPLER.replace("for epoch in range(3)", "for _ in range(epochs)"), None),
    "a loop on one line": (SAMPLER.partition("for")[0] + "for epoch in range(3): train(loader)\n", None),
}  # fmt: skip


@pytest.mark.parametrize("case", EPOCHS)
def test_the_sampler_gets_the_number_of_the_epoch(case: str) -> None:
    script, line = EPOCHS[case]
    assert changed_lines(HEAD + script) == ([] if line is None else [line])


SAVES = {
    "torch.distributed by its short name": (
        HEAD + 'torch.save(model, "m.pt")\n',
        PYTORCH,
        ["if dist.get_rank() == 0:", '    torch.save(model, "m.pt")'],
    ),
    "torch.distributed by its long name": (
        HEAD.replace("import torch.distributed as dist\n", "").replace("dist.", "torch.distributed.")
        + 'torch.save(model, "m.pt")\n',
        PYTORCH,
        ["if torch.distributed.get_rank() == 0:", '    torch.save(model, "m.pt")'],
    ),
    "a variable of the function": (
        HEAD + 'def main():\n    rank, size = dist.get_rank(), 4\n    torch.save(m, "m")\nmain()\n',
        PYTORCH,
        ["    if rank == 0:", '        torch.save(m, "m")'],
    ),
    "a parameter": (
        HEAD + 'def main(global_rank):\n  torch.save(m, "m")\nmain(dist.get_node())\n',
        PYTORCH,
        ["  if global_rank == 0:", '      torch.save(m, "m")'],
    ),
    "a variable of another function": (
        HEAD + 'def f():\n    rank = 1\ndef main():\n    torch.save(m, "m")\nmain()\n',
        PYTORCH,
        ["    if dist.get_rank() == 0:", '        torch.save(m, "m")'],
    ),
    "the rank on the instance": (
        HEAD + 'rank = int(os.environ["LOCAL_RANK"])\ntorch.save(m, "m")\n',
        PYTORCH,
        ["if dist.get_rank() == 0:", '    torch.save(m, "m")'],
    ),
    "after the process group": (
        HEAD + 'dist.destroy_process_group()\ntorch.save(m, "m")\n',
        PYTORCH,
        ['if int(os.environ["RANK"]) == 0:', '    torch.save(m, "m")'],
    ),
    "Horovod": (
        'import horovod.torch as hv\nimport torch\nhv.init()\nhv.broadcast(m, 0)\ntorch.save(m, "m")\n',
        MPI,
        ["if hv.rank() == 0:", '    torch.save(m, "m")'],
    ),
    "several lines": (
        HEAD + 'torch.save(\n    model,  # all of it\n\n    "m.pt",\n)  # end\n',
        PYTORCH,
        [
            "if dist.get_rank() == 0:", "    torch.save(", "        model,  # all of it",
            '        "m.pt",', "    )  # end",
        ],
    ),
    "a tab": (
        HEAD + 'if True:\n\ttorch.save(m, "m")\n',
        PYTORCH,
        ["\tif dist.get_rank() == 0:", '\t\ttorch.save(m, "m")'],
    ),
    "each of several": (
        HEAD + 'torch.save(a, "a")\ntorch.save(b, "b")\nimport mlflow\nmlflow.log_metric("c", 1)\n',
        PYTORCH,
        [line for what in ('torch.save(a, "a")', 'torch.save(b, "b")', 'mlflow.log_metric("c", 1)')
         for line in ("if dist.get_rank() == 0:", f"    {what}")],
    ),
    "two statements on a line": (HEAD + 'a = 1; torch.save(m, "m")\n', PYTORCH, []),
    "a condition on the line": (HEAD + 'if done: torch.save(m, "m")\n', PYTORCH, []),
    "part of an expression": (HEAD + 'saved = torch.save(m, "m")\n', PYTORCH, []),
    "a text over several lines": (HEAD + 'torch.save(m, """a\nb""")\n', PYTORCH, []),
    "MPI without a name for the rank": ('import torch\ntorch.save(m, "m")\n', MPI, []),
}  # fmt: skip


@pytest.mark.parametrize("case", SAVES)
def test_only_the_first_process_saves(case: str) -> None:
    script, kind, lines = SAVES[case]
    assert changed_lines(script, kind=kind) == lines


IMPORTS = {
    "before the first import": ("import torch\n", "import os\nimport torch\n"),
    "after a docstring and the future": (
        '#!/usr/bin/env python\n"""Text."""\nfrom __future__ import annotations\nimport torch\n',
        '#!/usr/bin/env python\n"""Text."""\nfrom __future__ import annotations\nimport os\nimport torch\n',
    ),
    "without any import": ("# head\nx = 1\n", "# head\nimport os\nx = 1\n"),
}


@pytest.mark.parametrize("case", IMPORTS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_missing_import_is_added_safely(case: str, line_end: str) -> None:
    before, after = (f"{text}print(os.environ)\n".replace("\n", line_end) for text in IMPORTS[case])
    Path("job.yml").write_text(JOB.format(kind=PYTORCH, flags=""))
    Path("train.py").write_bytes(b"\xef\xbb\xbf" + before.encode())
    fixing.fix("job.yml")
    assert Path("train.py").read_bytes() == b"\xef\xbb\xbf" + after.encode()


def test_a_short_name_that_can_mean_another_package_is_not_imported_safely() -> None:
    script = "import torch\nprint(np.zeros(3))\n"
    assert fixed(script, unsafe=False) == script
    assert fixed(script) == "import numpy as np\n" + script


WEIGHTS = """\
model = Net().to("cuda")
model.load_state_dict({load})
if dist.get_rank() == 0:
    torch.save(model.state_dict(), path)
"""
LOADS = {
    "a path": ("torch.load(path)", 'torch.load(path, map_location="cpu")'),
    "an option": ("torch.load(f(x), mmap=True)", 'torch.load(f(x), mmap=True, map_location="cpu")'),
    "an entry": ('torch.load(path)["model"]', 'torch.load(path, map_location="cpu")["model"]'),
    "a comma": ("torch.load(path,)", 'torch.load(path, map_location="cpu",)'),
    "a device": ("torch.load(path, map_location=device)", None),
    "a device without its name": ("torch.load(path, device)", None),
    "unknown options": ("torch.load(path, **options)", None),
    "copies on the CPU": ("{k: v.cpu() for k, v in torch.load(path).items()}", None),
    "no weights": ("other)\nrows = torch.load(path", None),
}  # fmt: skip


@pytest.mark.parametrize("case", LOADS)
def test_weights_are_loaded_onto_the_cpu(case: str) -> None:
    load, better = LOADS[case]
    expected = [] if better is None else [f"model.load_state_dict({better})"]
    assert changed_lines(HEAD + WEIGHTS.replace("{load}", load)) == expected


def test_a_boolean_is_read_as_one() -> None:
    script = (
        'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--shuffle", type=bool)\n'
    )
    assert changed_lines(script, flags="--shuffle False") == [
        'parser.add_argument("--shuffle", type=lambda text: text.lower() == "true")'
    ]


def test_each_process_gets_its_own_gpu_where_one_place_chooses_it() -> None:
    head = 'import torch\ntorch.distributed.init_process_group("nccl")\n'
    assert changed_lines(head + "model = make().cuda()\n") == [
        "import os", 'model = make().cuda(int(os.environ["LOCAL_RANK"]))',
    ]  # fmt: skip
    twice = head + 'model = make().to("cuda")\nrows = load().to("cuda")\n'
    assert changed_lines(twice) == []


def test_scripts_that_no_named_file_starts_are_left_alone(tree: Path) -> None:
    Path("c").mkdir()
    component = (
        "type: command\nname: c\nversion: '1'\ncommand: python t.py\ncode: .\nenvironment: azureml:e:1\n"
    )
    Path("c/c.yml").write_text(component)
    script = "import torch\nprint(os.environ)\n"
    Path("c/t.py").write_text(script)
    Path("job.yml").write_text(
        "type: pipeline\nsettings: {default_compute: azureml:c}\njobs: {a: {component: ./c/c.yml}}\n"
    )
    assert [each.code for each in fixing.fix("job.yml").report.diagnostics if each.fix] == ["WS930"]
    assert Path("c/t.py").read_text() == script
    fixing.fix("c")
    assert Path("c/t.py").read_text() == "import os\n" + script


LIBRARIES = {
    "trainer": (
        "import lightning\ntrainer = lightning.Trainer(devices=4, num_nodes=2)\ntrainer.fit(model)\n",
        ["trainer = lightning.Trainer(devices=2, num_nodes=2)"],
    ),
    "nodes": (
        "import lightning\ntrainer = lightning.Trainer(\n    devices=2,\n)\ntrainer.fit(model)\n",
        ["    devices=2, num_nodes=2,"],
    ),
    "loader": (
        f"{HEAD}sampler = DistributedSampler(rows)\nDataLoader(rows, shuffle=True, sampler=sampler)\n",
        ["DataLoader(rows, shuffle=False, sampler=sampler)"],
    ),
    "loss": (
        "import deepspeed\nengine, *_ = deepspeed.initialize()\nloss = engine(rows)\nloss.backward()\n",
        ["engine.backward(loss)"],
    ),
}


@pytest.mark.parametrize("case", LIBRARIES)
def test_what_a_library_is_given(case: str) -> None:
    script, lines = LIBRARIES[case]
    assert changed_lines(script) == lines

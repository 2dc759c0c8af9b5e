"""`adopt` edits scripts of many styles, changes nothing twice, and refuses what it cannot do safely."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path

import pytest
from adopt_text import PLAIN, adopt_text

import worldsize
from worldsize.adopting.adopt import adopt_module, adopt_script
from worldsize.adopting.model import AdoptError
from worldsize.adopting.options.arguments import write_arguments
from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest
from worldsize.adopting.source.reading import MOST_BYTES, parse_bytes
from worldsize.cli.adopt import describe_adoption, render_diff

HERE = Path(__file__).parent
SCRIPTS = sorted((HERE / "scripts").glob("*.py"))
MORE = sorted((HERE / "more").glob("*.py"))  # not proven by processes in these tests
REFUSED = sorted(path for path in (HERE / "refused").iterdir() if path.suffix in (".py", ".txt"))
BY_NAME = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
ALL = pytest.mark.parametrize("path", [*SCRIPTS, *MORE], ids=lambda path: path.stem)


NET = "def build():\n    return torch.nn.Linear(4, 1)\n"
PACKAGED = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

from .nets import build

loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
model = build().to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def show(path: Path) -> str:
    """The diff of a script, what is left to its author, and why each line changes."""
    adoption = adopt_script(path)
    before, after = adoption.source.splitlines(keepends=True), adoption.text.splitlines(keepends=True)
    name = path.name
    diff = "".join(difflib.unified_diff(before, after, name, name))
    left = [f"{each.span.line}:{each.span.column}: {each.message}\n" for each in adoption.obstacles]
    why = [f"{each.line}: {each.rule or '-'} {each.reason}\n" for each in adoption.changes]
    flags = [f"{each.option} {each.role} {each.default!r}\n" for each in adoption.profile.flags]
    return "".join([diff, "\n== left to the author\n", *left, "\n== why\n", *why, "\n== options\n", *flags])


@ALL
def test_the_diff_is_the_committed_one(path: Path, update_golden: bool) -> None:
    golden = path.with_suffix(".diff")
    text = show(path)
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@ALL
def test_an_adopted_script_compiles_and_stays(path: Path) -> None:
    first = adopt_script(path)
    compile(first.text, str(path), "exec", dont_inherit=True)
    module, _ = parse_bytes(str(path), first.text.encode())
    again = adopt_module(module)
    assert again.text == first.text
    assert not again.changes
    assert again.profile.framework == first.profile.framework


@BY_NAME
def test_options_set_what_the_plan_decides(path: Path) -> None:
    profile = adopt_script(path).profile
    for role in ("batch_size", "learning_rate", "epochs"):
        assert profile.flag(role) is not None, role


SPEC = """\
name: adopted
compute: {{gpu: {{target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4, max_instances: 2}}}}
steps:
  train:
    compute: gpu
    instance_count: 2
    timeout: 3600
    distribution: {{type: {kind}}}
    command: python train.py {options}
    code: .
    environment: {{image: "mcr.microsoft.com/azureml/openmpi5.0-cuda12.4-ubuntu22.04:20260715.v1"}}
    outputs: {{model: uri_folder, checkpoints: uri_folder}}
    scale: {{reference: {{batch_size: 32, learning_rate: 0.05}}, optimizer: sgd, epochs: 2, rows: 10000}}
"""
VALUES = {
    "batch_size": "${{plan.batch_size_per_device}}",
    "learning_rate": "${{plan.learning_rate}}",
    "output": "${{outputs.model}}",
    "checkpoints": "${{outputs.checkpoints}}",
}


@ALL
def test_the_rules_find_nothing_in_an_adopted_script(path: Path, tmp_path: Path) -> None:
    adoption = adopt_script(path)
    flags = adoption.profile.flags
    ours = [(each, VALUES[each.role]) for each in flags if each.role in VALUES]
    options = list(write_arguments(adoption.profile, [], ours))
    kind = "tensorflow" if adoption.profile.framework == "keras" else "pytorch"
    (tmp_path / "train.py").write_text(adoption.text, encoding="utf-8")
    spec = tmp_path / "spec.yml"
    spec.write_text(SPEC.format(kind=kind, options=" ".join(options)), encoding="utf-8")
    found = [each for each in worldsize.check(spec).diagnostics if each.code.startswith("WS9")]
    assert [each for each in found if each.code != "WS946"] == []  # it has not all outputs


def test_there_are_twenty_scripts() -> None:
    frameworks = [adopt_script(path).profile.framework for path in SCRIPTS]
    counts = {name: frameworks.count(name) for name in sorted(set(frameworks))}
    assert counts == {"accelerate": 1, "keras": 1, "lightning": 2, "torch": 14, "transformers": 2}


def test_refusals_are_the_committed_ones(update_golden: bool) -> None:
    lines = []
    for path in REFUSED:
        with pytest.raises(AdoptError) as caught:
            adopt_script(path)
        finding = caught.value.finding
        lines.append(
            f"{path.name}:{finding.span.line}:{finding.span.column}: {finding.message}\n  {finding.help}\n"
        )
    golden = HERE / "refused.txt.golden"
    if update_golden:
        golden.write_text("".join(lines), encoding="utf-8")
    assert "".join(lines) == golden.read_text(encoding="utf-8")


def test_a_notebook_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    with pytest.raises(AdoptError, match="notebook") as caught:
        adopt_script(path)
    assert "jupyter nbconvert --to script" in str(caught.value.finding.help)


@pytest.mark.parametrize(
    ("item", "known"),
    [
        ("self.x[i] if random.random() < 0.5 else -self.x[i]", True),
        ("flip(self.x[i])", True),
        ("self.x[i] + self.rng.normal()", True),
        ("self.x[i]", False),
    ],
)
def test_samples_that_a_dataset_changes_at_random_are_a_known_cause(item: str, known: bool) -> None:
    dataset = f"""
import random, numpy

class Rows:
    def __init__(self):
        self.x, self.rng = numpy.random.rand(9), numpy.random.default_rng()

    def __getitem__(self, i):
        return {item}

def flip(x):
    return x if numpy.random.rand() < 0.5 else -x
"""
    assert adopt_text(PLAIN + dataset.encode()).profile.random_augmentation is known


def test_line_ends_and_the_byte_order_mark_stay() -> None:
    adoption = adopt_text(b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n"))
    assert adoption.encoding == "utf-8-sig"
    assert "\n" not in adoption.text.replace("\r\n", "")
    assert adoption.text.replace("\r\n", "\n") == adopt_text(PLAIN).text


def test_another_encoding_stays() -> None:
    text = b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + PLAIN
    adoption = adopt_text(text)
    assert adoption.text.encode(adoption.encoding).startswith(b"# -*- coding: latin-1 -*-\n# caf\xe9\n")


def test_lines_without_an_edit_stay() -> None:
    for path in SCRIPTS:
        adoption = adopt_script(path)
        after = {line.strip() for line in adoption.text.splitlines()}
        kept = [line for line in adoption.source.splitlines() if line.strip() in after]
        assert len(kept) >= 0.6 * len(adoption.source.splitlines()), path.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "(" * 300 + ")" * 300, "cannot parse"),
        ("x = '" + "a" * 100_000 + "'", "more than 20000 characters"),
        ("", "empty"),
        ("def f(:\n", "cannot parse"),
        (b"x = '\xff'\n", "no text in the encoding"),
        (b"# coding: klingon\n", "no text in the encoding"),
        (b"import os\n\n\nx = 'caf\xe9'\n", "train.py:4:1.*, utf-8: byte 0xe9"),
        ("import torch\n".encode("utf-16"), "is UTF-16"),
        ('{"cells": [], "nbformat": 4}', "this is a notebook"),
        ("import torch\nget_ipython().run_line_magic('time', '')\n", "in notebooks only"),
        ("x = 1\0\n", "control characters"),
    ],
    ids=[
        "nested",
        "long line",
        "empty",
        "syntax",
        "bytes",
        "unknown encoding",
        "latin-1",
        "UTF-16",
        "notebook",
        "magic",
        "nul",
    ],
)
def test_hostile_text_is_one_finding(text: str | bytes, message: str) -> None:
    with pytest.raises(AdoptError, match=message):
        adopt_text(text)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("#" * 99 + "\n" * 2 + ("x = 1\n" * (MOST_BYTES // 6 + 1)))
    with pytest.raises(AdoptError, match="more than"):
        adopt_script(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdoptError, match="cannot be read"):
        adopt_script(tmp_path / "none.py")
    with pytest.raises(AdoptError, match="folder"):
        adopt_script(tmp_path)


def test_foreign_files_are_refused_or_compile() -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.glob("*.py"))[::4]:
        try:
            adoption = adopt_script(path)
        except AdoptError:
            continue
        compile(adoption.text, str(path), "exec", dont_inherit=True)


def test_statements_that_share_a_line_are_refused() -> None:
    text = PLAIN.decode().replace("print('saved')", "print('saved'); print('end')")
    with pytest.raises(AdoptError, match="several statements share this line"):
        adopt_text(text)


def test_a_training_that_goes_past_the_model_is_refused() -> None:
    text = PLAIN.decode().replace("pred = model(xb)", "pred = model.predict(xb)")
    with pytest.raises(AdoptError, match="past the model"):
        adopt_text(text)


def refuse(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(AdoptError) as caught:
        adopt_script(path)
    return str(caught.value)


def test_a_training_loop_in_another_module_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("def fit(loss):\n    loss.backward()\n")
    found = refuse(tmp_path / "train.py", "import torch\nfrom engine import fit\n\nfit(torch.zeros(1))\n")
    assert "train.py:2:1" in found
    assert "the training loop is in another module, `engine.py`" in found


def test_a_loop_on_gradient_tape_is_refused_as_one(tmp_path: Path) -> None:
    text = "import tensorflow as tf\n\nwith tf.GradientTape() as tape:\n    pass\n"
    assert "in a loop of its own on `GradientTape`" in refuse(tmp_path / "train.py", text)


def test_a_loss_that_adds_a_sum_and_a_mean_is_refused() -> None:
    text = (HERE / "more/sum_loss.py").read_text().replace("torch.sum(1 +", "torch.mean(1 +")
    with pytest.raises(AdoptError, match="adds a sum over the rows and a mean"):
        adopt_text(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('reduction="sum"', 'reduction="mean"'),
        ("return bce + kld", "return (bce + kld) / len(x)"),
    ],
)
def test_the_mean_over_rows_is_not_multiplied(before: str, after: str) -> None:
    text = (HERE / "more/sum_loss.py").read_text().replace(before, after)
    text = text.replace("torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "mu.pow(2).mean()")
    assert "* WORLD_SIZE)" not in adopt_text(text).text


def test_a_generator_of_the_script_is_refused_where_it_draws_rows() -> None:
    text = (HERE / "more/while_steps.py").read_text()
    text = text.replace("np.random.seed(0)", "rng = np.random.default_rng(0)").replace(
        "np.random.randint(0, ", "rng.integers(0, "
    )
    with pytest.raises(AdoptError, match="draws the same rows in every process"):
        adopt_text(text)


def test_options_stand_on_their_side_of_a_subcommand() -> None:
    profile = adopt_script(HERE / "more/subcommands.py").profile
    batch, seed = profile.flag("batch_size"), profile.flag("seed")
    assert batch is not None
    assert seed is not None
    ours = [(batch, "4"), (seed, "1")]
    expected = ["--seed", "1", "train", "--batch-size", "4"]
    assert list(write_arguments(profile, [], ours)) == expected
    assert list(write_arguments(profile, ["train"], ours)) == expected
    assert "--model" not in [flag.option for flag in profile.flags]  # of another subcommand


def test_imports_that_share_a_line_come_before_what_needs_them() -> None:
    text = PLAIN.decode().replace("import torch\n", "", 1)
    text = text.replace("BATCH_SIZE = 32", "import sys; import torch\n\nBATCH_SIZE = 32")
    lines = adopt_text(text).text.splitlines()
    assert lines.index("import torch") < lines.index("if torch.cuda.is_available():")


def test_lightning_keeps_checkpoints_where_the_script_has_none() -> None:
    text = (HERE / "scripts/lightning_arguments.py").read_text()
    assert "enable_checkpointing=bool(args.checkpoints)" in adopt_text(text).text


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("exec 'x'\n", "Python 3"),
        ("try:\n    pass\nexcept OSError, error:\n    pass\n", "Python 3"),
        ("%matplotlib inline\n", "notebook"),
        ("x = (\n", "py_compile"),
    ],
)
def test_what_python_cannot_parse_is_told_apart(text: str, help_: str) -> None:
    with pytest.raises(AdoptError, match="cannot parse") as caught:
        adopt_text(text)
    assert help_ in str(caught.value.finding.help)


def test_a_module_of_a_package_is_started_as_one(tmp_path: Path) -> None:
    package = tmp_path / "code" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "nets.py").write_text(f"import torch\n\n\n{NET}", encoding="utf-8")
    script = package / "train.py"
    script.write_text(PACKAGED, encoding="utf-8")

    adoption = adopt_script(script)
    project = make_project(ProjectRequest(adoption, script), tmp_path / "job", beside=False)

    assert adoption.profile.module == "mine.train"
    assert adoption.profile.find_folder(script) == tmp_path / "code"
    assert {"src/mine/__init__.py", "src/mine/nets.py", "src/mine/train.py"} <= project.files.keys()
    assert b"python -m mine.train" in project.files["train.yml"]
    assert b"mine" not in project.files["conda.yml"]


def test_an_optimizer_that_is_made_on_demand_is_in_no_checkpoint() -> None:
    text = (HERE / "more/perhaps_an_optimizer.py").read_text(encoding="utf-8")
    text = text.replace("optimizer = None\n", "").replace("if optimizer is not None:", "if args.adam:")
    adoption = adopt_text(text)
    assert "latest" not in adoption.text
    assert any("no checkpoints" in each.message for each in adoption.obstacles)


# Objects of other sizes come first, so that those of the script lie, and hash, elsewhere.
PROGRAM = """
import json
import sys
from pathlib import Path

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest
from worldsize.cli.adopt import describe_adoption, render_diff

held = [bytes(size % 509) for size in range(int(sys.argv[1]) * 997)]
del held[:: int(sys.argv[1]) + 2]
for path in map(Path, sys.argv[2:]):
    adoption = adopt_script(path)
    print(json.dumps(describe_adoption(adoption)), render_diff(adoption, colour=False))
    project = make_project(ProjectRequest(adoption, path), path.parent, beside=True)
    print(project.spec, project.files, sep="\\n")
"""

LOST = """\
    if total < low or total > high or epoch > last:
        low, high, last = sort(low, high, last, total)
"""


@pytest.mark.run  # starts Python four times
@pytest.mark.smoke
def test_the_output_is_the_same_for_each_seed(tmp_path: Path) -> None:
    lost = tmp_path / "lost.py"  # three names that one statement sets are reported
    lines = PLAIN.decode().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("for epoch"))
    lost.write_text(
        "".join(
            [*lines[:at], "low = high = last = 0\n", lines[at], "    total = 0.0\n", LOST, *lines[at + 1 :]]
        )
    )
    paths = [str(lost), *sorted(map(str, (*HERE.glob("scripts/*.py"), *HERE.glob("more/*.py"))))]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, seed, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=120,
        ).stdout.replace(str(tmp_path).encode(), b"")
        for seed in ("1", "2", "3", "4")
    }
    assert len(outputs) == 1
    assert all(
        f"`{name}` starts anew".encode() in output for output in outputs for name in ("low", "high", "last")
    )


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("WS902: the rows come in a new order each epoch", "+            self.train_loader.sampler.set_"),
        ("a job that is interrupted goes on from its last epoch", "-        for epoch in range("),
        ("a job that is interrupted goes on from its last epoch", "+            if RANK == 0 and latest:"),
        ("WS901: each process knows which one it is, and what is set by flags", "+# One process per GPU: "),
        ("WS915: the gradients of all processes are averaged", "+        self.ddp_model = Distributed"),
        ("the metric is of the rows of all processes", "+        running = average(running)"),
        ("WS904: one process writes the file", "+        if RANK == 0:"),
        ("the processes end together, and the group with them", "+    dist.barrier()"),
    ],
)  # fmt: skip
def test_a_reason_stands_above_its_line(reason: str, line: str) -> None:
    lines = render_diff(adopt_script(HERE / "scripts/trainer_class.py"), colour=False).splitlines()
    below = [after for before, after in pairwise(lines) if before.startswith(f"# {reason}")]
    assert any(after.startswith(line) for after in below)


@BY_NAME
def test_each_change_has_its_reason_above_a_line_that_changes(path: Path) -> None:
    adoption = adopt_script(path)
    shown = render_diff(adoption, colour=False).splitlines()
    for change in adoption.changes:
        assert any(line.startswith("# ") and line.endswith(change.reason) for line in shown)
    for before, after in pairwise(shown):
        assert not before.startswith("# ") or after[0] in "#+-"


def test_the_diff_for_programs_can_be_applied() -> None:
    adoption = adopt_script(HERE / "scripts/trainer_class.py")
    lines = describe_adoption(adoption)["diff"].splitlines()
    assert {line[0] for line in lines} <= set(" +-@")
    plain = [line for line in render_diff(adoption, colour=False).splitlines() if line[:1] != "#"]
    assert lines == plain

"""What modules beside the script do is known: their layers, their random numbers, their packages."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
import yaml

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import Adoption, ScriptProfile
from worldsize.adopting.project.environment import pin_environment
from worldsize.adopting.project.files import make_project
from worldsize.adopting.project.spec import ProjectRequest
from worldsize.adopting.proving.prove import Measured
from worldsize.azureml.environment import Installed
from worldsize.azureml.gpu_support import judge_build
from worldsize.azureml.tree import Tree
from worldsize.facts import cuda, vm_sizes
from worldsize.scripts.program import read_imported, read_module

SCRIPT = (Path(__file__).with_name("scripts") / "argparse_digits.py").read_text(encoding="utf-8")
CLASS = "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n        self.layer = "


def adopt(folder: Path, files: dict[str, str]) -> Adoption:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    script = folder / "train.py"
    line = "import argparse\n"
    script.write_text(SCRIPT.replace(line, f"{line}from net import Net\n", 1), encoding="utf-8")
    return adopt_script(script)


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ("has_batch_norm", f"{CLASS}nn.BatchNorm2d(3)\n"),
        ("has_dropout", f"{CLASS}nn.Dropout(0.1)\n"),
        ("has_attention", f"{CLASS}nn.MultiheadAttention(8, 2)\n"),
        ("draws_noise", f"{CLASS}torch.randn_like(3)\n".replace("from", "import torch\nfrom", 1)),
        ("random_augmentation", "from torchvision import transforms\nNet = transforms.RandomCrop(8)\n"),
    ],
)
@pytest.mark.parametrize("where", ["net.py", "net/__init__.py", "parts/inner.py", "net/inner.py"])
def test_a_module_beside_has_known_causes(tmp_path: Path, known: str, code: str, where: str) -> None:
    package = where.startswith("net/")
    files = {"net/__init__.py" if package else "net.py": "from .inner import Net" if package else ""}
    if where == "parts/inner.py":
        files = {"net.py": "from parts.inner import Net\n"}
    profile = adopt(tmp_path, {**files, where: code}).profile
    assert getattr(profile, known)


def test_what_is_not_imported_is_no_cause(tmp_path: Path) -> None:
    files = {"net.py": "from net import Net\nNet = 1\n", "other.py": f"{CLASS}nn.BatchNorm2d(3)\n"}
    adoption = adopt(tmp_path, files)
    assert not adoption.profile.has_batch_norm
    assert not any("normalization" in each.message for each in adoption.obstacles)


def test_batch_normalization_beside_is_told_at_its_import(tmp_path: Path) -> None:
    adoption = adopt(tmp_path, {"net.py": f"{CLASS}nn.BatchNorm2d(3)\n"})
    told = [each for each in adoption.obstacles if "normalization" in each.message]
    message = "the batch normalization in `net.py` takes the mean of the rows of one process"
    assert [each.message for each in told] == [message]
    assert adoption.source.splitlines()[told[0].span.line - 1] == "from net import Net"


def test_the_packages_of_modules_beside_are_imported(tmp_path: Path) -> None:
    files = {
        "net.py": "import parts.rows\nNet = 1\n",
        "parts/rows.py": "import json\nfrom PIL import Image\n",
    }
    assert "PIL" in adopt(tmp_path, files).profile.imports


@pytest.mark.parametrize(
    ("code", "need"),
    [
        ("from torch.utils.tensorboard import SummaryWriter", "tensorboard"),
        ("from torch.utils import tensorboard as tb\nw = tb.SummaryWriter()", "tensorboard"),
        ("from lightning.pytorch.loggers import TensorBoardLogger", "tensorboard"),
        ("import pandas as pd\npd.read_parquet(path)", "pyarrow"),
        ("import pandas as pd\npd.DataFrame(x).to_parquet(path)", "pyarrow"),
        ("import pandas as pd\npd.read_excel('rows.xls')", "xlrd"),
        ("import pandas as pd\npd.read_excel(path)", "openpyxl"),
        ("from transformers import TrainingArguments as A\nA(report_to=['tensorboard'])", "tensorboard"),
        ("import polars as pl\nimport pandas\npl.DataFrame(x).to_parquet(path)", None),
        ("import pandas as pd\npd.read_csv('rows.csv')", None),
        ("from tensorboardX import SummaryWriter", None),
    ],
)  # fmt: skip
def test_a_call_needs_a_package(tmp_path: Path, code: str, need: str | None) -> None:
    profile = adopt(tmp_path, {"net.py": f"{code}\nNet = 1\n"}).profile
    assert [each[0] for each in profile.needs] == ([] if need is None else [need])


def test_a_needed_package_is_pinned_or_told(tmp_path: Path) -> None:
    profile = ScriptProfile("train.py", "torch", needs=(("nowhere-a", "click"), ("nowhere-b",)))
    made = pin_environment("train", profile, (), "Standard_NC24ads_A100_v4")
    assert any(each.startswith("click==") for each in made.conda["dependencies"][-1]["pip"])
    assert made.unknown == ("nowhere-b",)


@pytest.mark.parametrize(
    ("options", "keeps"),
    [("", True), (", drop_last=False", True), (", drop_last=True", False), (", drop_last=args.drop", False)],
)
def test_the_plan_counts_the_last_batch_that_the_loaders_keep(
    tmp_path: Path, options: str, keeps: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("shuffle=True", f"shuffle=True{options}"), encoding="utf-8")
    request = ProjectRequest(adopt_script(script), script, measured=Measured(rows=2405))
    spec = yaml.safe_load(make_project(request, tmp_path / "job", beside=False).files["train.yml"])
    assert spec["steps"]["train"]["scale"].get("drop_last") is (False if keeps else None)


@pytest.mark.parametrize(("arguments", "epochs"), [((), 0.4), (("--warmup-steps", "60"), 0.8)])
def test_the_plan_sets_the_steps_of_a_warm_up(
    tmp_path: Path, arguments: tuple[str, ...], epochs: float
) -> None:
    script = tmp_path / "train.py"
    option = 'parser.add_argument("--warmup-steps", type=int, default=30)\n    '
    script.write_text(SCRIPT.replace("args = parser", f"{option}args = parser", 1), encoding="utf-8")
    adoption = adopt_script(script)
    rows = 75 * (adoption.profile.batch_size or 0)
    request = ProjectRequest(adoption, script, arguments=arguments, measured=Measured(rows=rows))
    spec = yaml.safe_load(make_project(request, tmp_path / "job", beside=False).files["train.yml"])
    step = spec["steps"]["train"]
    assert step["scale"]["warmup_epochs"] == epochs
    assert step["command"].count("--warmup-steps ${{plan.warmup_steps}}") == 1
    assert "--warmup-steps 60" not in step["command"]


@pytest.mark.parametrize("line", ["from net import Net\n", "import net.inner\n"])
def test_an_import_runs_the_packages_around_its_module(tmp_path: Path, line: str) -> None:
    inside = {"net/__init__.py": "import shapely\nNet = 1\n", "net/inner.py": "import fiona\n"}
    for name, text in inside.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    script = tmp_path / "train.py"
    script.write_text(line + SCRIPT, encoding="utf-8")
    tree = Tree(tmp_path)
    module = read_module(tree, script)
    assert module is not None
    names = [Path(one.source.path).name for one in read_imported(tree, module, script, (tmp_path,)).modules]
    assert names[1:] == ["__init__.py", "inner.py"][: 1 + ("inner" in line)]
    assert "shapely" in adopt_script(script).profile.imports


@pytest.mark.parametrize("version", ["2.1.0", "2.4.1", "2.6.0", "2.7.1", "2.9.0", "2.13.0", "2.14.0"])
def test_torch_fits_the_gpus_of_every_size(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    profile = ScriptProfile("train.py", "torch")
    judged = 0
    for size in filter(None, map(vm_sizes.lookup, vm_sizes.names())):
        gpu = cuda.find_gpu(size.gpu_model)
        fits = [build for build in cuda.find_builds("torch", version) if gpu and _runs(build, gpu)]
        newest = cuda.newest_running("torch", gpu.capability) if gpu and gpu.capability else None
        if gpu is None or not (fits or newest):
            continue  # of AMD, and a K80 with a torch that dropped it: the checker asks for another size
        line = next(
            line
            for line in pin_environment("train", profile, (), size.name).conda["dependencies"][-1]["pip"]
            if line.startswith("torch==")
        )
        pinned, _, tag = line.partition("==")[2].partition("+")
        assert judge_build(Installed("torch", pinned, tag or None, line, None), size) is None, size.name
        judged += 1
    assert judged > 40


def _runs(build: cuda.Build, gpu: cuda.Gpu) -> bool:
    return gpu.capability is not None and build.may_run_on(gpu.capability)

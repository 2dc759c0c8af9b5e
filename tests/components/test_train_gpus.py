"""A planned GPU that is not there stops every training component at once, with what was planned and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsshards.errors import UserError
from wstrain.launch import gpus
from wstrain.launch.environment import Launch

pytestmark = [pytest.mark.run, pytest.mark.timeout(300)]

Training = Callable[..., Any]
PLAN = {
    "batch_size_per_device": 32,
    "global_batch_size": 64,
    "learning_rate": 0.1,
    "model": "mlp",
    "planned_gpus_per_instance": 4,
    "planned_instance_type": "Standard_NC96ads_A100_v4",
}
TORCH = [
    ("train_ddp", 2),
    ("train_deepspeed", 2),
    pytest.param("train_horovod", 2, marks=pytest.mark.horovod),
]
SIZE = "the plan is for 4 GPUs an instance (`Standard_NC96ads_A100_v4`)"
# A driver as a GPU machine has it, of as many GPUs as a variable says.
DRIVER = r"""
#include <stdlib.h>
static int gpus(void) { return atoi(getenv("DRIVER_GPUS")); }
int cuInit(unsigned flags) { return gpus() ? 0 : 100; }
int cuDriverGetVersion(int *version) { *version = 12020; return 0; }
int cuDeviceGetCount(int *count) { *count = gpus(); return 0; }
int cuGetErrorString(int error, const char **text) { *text = "no CUDA-capable device is detected"; return 0; }
"""
UNLOADED = """
import os, sys
def end(event, arguments):
    if event == "import" and arguments[0] in ("torch", "tensorflow"):
        os._exit(77)
sys.addaudithook(end)
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, str]]:
    """The environment of a machine whose driver has some GPUs, that no framework here was built for."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER, encoding="ascii")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "driver.c"], check=True, timeout=60)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    return lambda count: {"LD_LIBRARY_PATH": path, "DRIVER_GPUS": str(count)}


@pytest.fixture
def unloaded(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that ends with another status as soon as it imports a framework."""
    (tmp_path / "sitecustomize.py").write_text(UNLOADED, encoding="ascii")
    return {"PYTHONPATH": str(tmp_path)}


def refusals(run: Any) -> list[str]:
    """What each process said, after checking that all stopped alike and quietly."""
    for rank in run.ranks:
        assert rank.status == 2, rank.stderr
        assert "Traceback" not in rank.stderr
    assert not (run.folder / "model").exists()
    return [rank.stderr for rank in run.ranks]


@pytest.mark.smoke
@pytest.mark.parametrize(("component", "processes"), [*TORCH, ("train_tensorflow", 1)])
def test_every_process_says_what_was_planned_and_what_is_here(
    training: Training, unloaded: dict[str, str], component: str, processes: int, tmp_path: Path
) -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": ""} | unloaded
    run = training(processes, component=component, shards=tmp_path, env=hidden, cold=True, **PLAN)
    for said in refusals(run):
        assert f"error: {SIZE}, but none can be used here" in said
        assert "`CUDA_VISIBLE_DEVICES` is ``" in said
        assert "help: " in said


@pytest.mark.smoke
@pytest.mark.parametrize(("component", "processes"), TORCH)
def test_gpus_that_only_the_driver_can_use_are_refused_without_a_plan_too(
    training: Training,
    *,
    driver: Callable[[int], dict[str, str]],
    unloaded: dict[str, str],
    component: str,
    processes: int,
    tmp_path: Path,
) -> None:
    build = gpus.installed_build("torch")
    if build is None or not build.blind:
        pytest.skip("needs a build of torch that can use no GPU")
    plan = {name: value for name, value in PLAN.items() if not name.startswith("planned_")}
    plan["batch_size_per_device"] = 64 // processes
    run = training(
        processes, component=component, shards=tmp_path, env=driver(4) | unloaded, cold=True, **plan
    )
    for said in refusals(run):
        assert "error: this machine has 4 GPUs, but none can be used here: " in said
        assert "is a build without CUDA; the NVIDIA driver offers CUDA 12.2 and has 4 GPUs" in said
        assert "help: install a build of the framework for a CUDA that this driver offers" in said


def test_tensorflow_has_the_last_word(driver: Callable[[int], dict[str, str]]) -> None:
    pytest.importorskip("tensorflow")
    program = """
from wstrain.launch import gpus
from wstrain_tensorflow.launch import setup, tf_config
from wsshards.errors import UserError
for planned in gpus.PlannedGpus(4), gpus.PlannedGpus(), gpus.PlannedGpus(0):
    try:
        gpus.expect_gpus_before_import(planned, "tensorflow")
        setup.setup_tensorflow(tf_config.Cluster(), planned, local_size=1, precision="fp32")
    except UserError as error:
        print(error)
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(
        command, env=os.environ | driver(4), capture_output=True, text=True, timeout=250, check=True
    )
    with_plan, without_plan = [line for line in run.stdout.splitlines() if "can be used here" in line]
    assert with_plan.startswith("the plan is for 4 GPUs an instance, but none can be used here: ")
    assert without_plan.startswith("this machine has 4 GPUs, but none can be used here: ")
    assert with_plan.endswith("; the NVIDIA driver offers CUDA 12.2 and has 4 GPUs")


@pytest.mark.smoke
def test_a_driver_without_a_gpu_has_its_own_words(
    training: Training, driver: Callable[[int], dict[str, str]], unloaded: dict[str, str], tmp_path: Path
) -> None:
    for said in refusals(training(2, shards=tmp_path, env=driver(0) | unloaded, cold=True, **PLAN)):
        assert SIZE in said
        assert "says `no CUDA-capable device is detected`" in said


@pytest.mark.smoke
def test_fewer_gpus_than_planned_are_counted_by_the_driver(
    monkeypatch: pytest.MonkeyPatch, driver: Callable[[int], dict[str, str]]
) -> None:
    library = f"{driver(2)['LD_LIBRARY_PATH'].split(os.pathsep)[0]}/libcuda.so.1"
    monkeypatch.setenv("DRIVER_GPUS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = gpus.query_driver(library)
    assert (found.count, found.description) == (2, "the NVIDIA driver offers CUDA 12.2 and has 2 GPUs")
    monkeypatch.setattr(gpus, "query_driver", lambda: found)
    monkeypatch.setattr(
        gpus, "installed_build", lambda _: gpus.FrameworkBuild("torch 2.10.0+cu126", blind=False)
    )
    planned = gpus.PlannedGpus(4, "Standard_NC96ads_A100_v4")
    with pytest.raises(UserError, match=r"the plan is for 4 GPUs .*, but 2 GPUs can be used here"):
        gpus.expect_gpus_before_import(planned, "torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")  # a choice of the user's: one a process is enough
    gpus.expect_gpus_before_import(planned, "torch", local_rank=1)
    with pytest.raises(UserError, match="`LOCAL_RANK` is 2 but this machine has 2 GPUs"):
        gpus.expect_gpus_before_import(planned, "torch", local_rank=2)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4")  # every rank knows of the others
    with pytest.raises(UserError, match="4 processes start here but this machine has 2 GPUs"):
        gpus.expect_gpus_before_import(planned, "torch", local_rank=0)


@pytest.mark.smoke
def test_torch_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from wstrain_torch.launch.process_group import Group

    def too_old() -> None:
        raise RuntimeError(
            "The NVIDIA driver on your system is too old (found version 12020). Please update."
        )

    monkeypatch.setattr(gpus, "query_driver", lambda: gpus.GpuDriver(4, "the NVIDIA driver has 4 GPUs"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", too_old)
    for planned in (gpus.PlannedGpus(4), gpus.PlannedGpus()):
        with pytest.raises(
            UserError, match=r"too old \(found version 12020\)`; the NVIDIA driver has 4 GPUs"
        ):
            Group(Launch(0, 0, 1), planned=planned)
    assert Group(Launch(0, 0, 1), planned=gpus.PlannedGpus(0)).device.type == "cpu"

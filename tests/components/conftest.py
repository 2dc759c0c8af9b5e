from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ports import find_free_port
from warm_servers import WarmServers, call_command
from warm_shards import (  # noqa: F401 - some are fixtures
    built_in_shards,
    find_shard_server,
    measure_process,
    read_defaults,
    render_command,
    shard,
)

from worldsize.azureml import component as component_yaml
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.snapshot import read_snapshot as snapshot_of

COMPONENTS = Path(__file__).parents[2] / "components"
# What evaluating, registering and every training import.
MLFLOW = ["mlflow.pyfunc", "mlflow.store.tracking.sqlalchemy_store"]
MLFLOW += ["mlflow.store.model_registry.sqlalchemy_store", "alembic.command", "sqlalchemy.dialects.sqlite"]
MLFLOW += ["IPython", "git"]  # it looks for a notebook and a repository as a run starts
TORCH = [*MLFLOW, "matplotlib.pyplot", "torch", "horovod.torch", "torch.distributed.checkpoint"]
TORCH += ["torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.pipelining"]
TORCH += ["torch._dynamo", "torch._export.non_strict_utils", "torch._functorch.aot_autograd"]  # for an export
TORCH += ["torch.export._trace", "torch._inductor.ir"]
TORCH += ["pytorch_optimizer"] if importlib.util.find_spec("pytorch_optimizer") else []
HUGGING_FACE = ["transformers.models.llama.modeling_llama", "peft"]
TENSORFLOW = ["tensorflow", "keras", *MLFLOW]
# In it `import torch` fails, as where only TensorFlow is installed.
WITHOUT_TORCH = Path(__file__).with_name("without_torch")
# Importing DeepSpeed looks for GPUs, after which a fork could not use them.
DEEPSPEED = [] if Path("/dev/nvidiactl").exists() else ["deepspeed"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The merged code folder of a component: its code with what it includes, as Azure ML merges them."""
    made: dict[str, Path] = {}

    def snapshot(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "code"
            described, problems = component_yaml.read_component(COMPONENTS / name / "component.yml")
            assert described is not None
            merged, more = snapshot_of(described, COMPONENTS / name, CopyAccess())
            assert not [*problems, *more]
            for place in merged.listing():
                target = made[name] / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(merged.content(place))
        return made[name]

    return snapshot


@pytest.fixture(scope="session")
def new_database(
    tmp_path_factory: pytest.TempPathFactory, warm: Callable[..., list[str]]
) -> Callable[[Path], None]:
    """Put a database of MLflow without runs at a path; to make one takes MLflow seconds."""
    folder = tmp_path_factory.mktemp("database")
    code = folder / "make.py"
    code.write_text("import mlflow; mlflow.search_experiments()")

    def copy(path: Path) -> None:
        if not (folder / "mlflow.db").exists():
            uri = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
            command = [*warm(), sys.executable, str(code)]
            subprocess.run(command, cwd=folder, env=os.environ | uri, check=True)
        if not path.exists():
            shutil.copy(folder / "mlflow.db", path)

    return copy


@pytest.fixture
def component(
    snapshots: Callable[[str], Path],
    tmp_path: Path,
    new_database: Callable[[Path], None],
    warm: Callable[..., list[str]],
) -> Run:
    """Run a component's own command line in its snapshot: `component("evaluate", model=…, metrics=…)`."""

    def run(name: str, *, env: dict[str, str] | None = None, timeout: float = 180, **values: Any) -> Any:
        described = yaml.safe_load((COMPONENTS / name / "component.yml").read_text(encoding="utf-8"))
        command = render_command(described["command"], read_defaults(described) | values)
        paths = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        tracking = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
        environment = {**os.environ, **paths, **tracking, **(env or {})}
        environment.pop("PYTHONPATH", None)
        if name in ("compare", "evaluate", "promote", "register"):
            new_database(tmp_path / "mlflow.db")
            command = f"{shlex.join(warm())} {command}"
        return subprocess.run(
            ["bash", "-c", command],
            cwd=snapshots(name),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@dataclass(frozen=True)
class Rank:
    """How one process of a group ended."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Trained:
    """A training run: its processes, its outputs, and the loss of every step that MLflow got."""

    ranks: list[Rank]
    folder: Path
    losses: dict[int, float]

    @property
    def ok(self) -> bool:
        return all(rank.status == 0 for rank in self.ranks)

    @property
    def errors(self) -> str:
        return "\n".join(f"[{number}] {rank.status} {rank.stderr}" for number, rank in enumerate(self.ranks))


@pytest.fixture(scope="session")
def mpirun() -> Callable[[int], list[str]]:
    """Open MPI's launcher, the one beside this Python before the system's: `mpirun(2)`."""
    beside = shutil.which("mpirun", path=Path(sys.executable).parent)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return lambda processes: [beside or "mpirun", *root, "--oversubscribe", "-np", str(processes)]


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """What to write before a command of Python for it to find libraries loaded: torch's or others.

    `base` is what a server has loaded of which this one is a fork; `without` is a folder with modules that
    stand before others: one of which the import fails, say.
    """
    servers = WarmServers(tmp_path_factory.mktemp("warm"))

    def prefix(*libraries: str, base: Sequence[str] = (), without: Path | None = None) -> list[str]:
        env = {"PYTHONPATH": str(without)} if without else {}
        return call_command(servers.find(libraries or TORCH, base=base, env=env))

    yield prefix
    servers.stop()


@pytest.fixture(scope="session")
def start_with_libraries(warm: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """What to write before a training's command for it to find loaded what that component imports."""

    def prefix(component: str, model: str = "") -> list[str]:
        if component == "train_tensorflow":
            return warm(*TENSORFLOW, without=WITHOUT_TORCH)
        more = DEEPSPEED if component == "train_deepspeed" else []
        more = [*more, *(HUGGING_FACE if model.startswith("hf:") else [])]
        return warm(*more, base=TORCH) if more else warm()

    return prefix


@pytest.fixture(scope="session")
def serve(warm: Callable[..., list[str]]) -> Callable[..., dict[str, Any]]:
    """Measure a saved model in a process that cannot import our training library: `serve(model, shards)`."""
    code = Path(__file__).with_name("serve_alone.py")

    def run(model: Path, shards: Path) -> dict[str, Any]:
        command = [*warm(), sys.executable, str(code), str(model), str(shards)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    return run


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def training(
    snapshots: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    mpirun: Callable[[int], list[str]],
    start_with_libraries: Callable[..., list[str]],
) -> Callable[..., Trained]:
    """Run a component's own command line as a group of processes: `training(2, shards=…, model=…)`.

    With `cold` they are new processes, for variables that the start of Python or torch reads.
    """
    database = tmp_path_factory.mktemp("mlflow") / "mlflow.db"

    def run(
        processes: int,
        *,
        component: str = "train_ddp",
        env: dict[str, str] | None = None,
        timeout: float = 180,
        largest_file_kib: int | None = None,
        code: Path | None = None,
        cold: bool = False,
        **values: Any,
    ) -> Trained:
        folder = tmp_path_factory.mktemp("train")
        described = yaml.safe_load((COMPONENTS / component / "component.yml").read_text(encoding="utf-8"))
        command = described["command"].replace("${{outputs.model}}", str(folder / "model"))
        plan = {"world_size": processes, "checkpoints": folder / "checkpoints"}
        values = read_defaults(described) | plan | values
        arguments = [sys.executable, *shlex.split(render_command(command, values))[1:]]
        if not cold:
            arguments = [*start_with_libraries(component, values.get("model", "")), *arguments]
        if largest_file_kib is not None:
            arguments = ["bash", "-c", f'ulimit -f {largest_file_kib}; exec "$@"', "limited", *arguments]
        common = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        common |= {"MLFLOW_TRACKING_URI": f"sqlite:///{database}", "MLFLOW_EXPERIMENT_NAME": folder.name}
        common |= {"WORLDSIZE_PROGRESS": str(folder / "progress.jsonl")} | (env or {})
        cwd = code or snapshots(component)
        if described["distribution"]["type"] == "mpi" and processes > 1:
            arguments, processes = [*mpirun(processes), *arguments], 0
        group = _describe_ranks(processes, arguments, cwd=cwd, common=common, folder=folder)
        statuses = start_ranks(group, timeout)
        ranks = [
            Rank(status, (folder / f"out-{rank}").read_text(), (folder / f"err-{rank}").read_text())
            for rank, status in enumerate(statuses)
        ]
        return Trained(ranks, folder, _losses(database, folder.name))

    return run


def _describe_ranks(
    processes: int, arguments: list[str], *, cwd: Path, common: dict[str, str], folder: Path
) -> list[dict[str, Any]]:
    """The processes of a group, or with 0 processes the launcher that starts them."""
    port = find_free_port()
    group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks: list[dict[str, Any]] = []
    for rank in range(processes or 1):
        own = group | {"RANK": str(rank), "LOCAL_RANK": str(rank), "NODE_RANK": "0"} if processes else {}
        output = {"stdout": str(folder / f"out-{rank}"), "stderr": str(folder / f"err-{rank}")}
        ranks.append({"arguments": arguments, "cwd": str(cwd), "env": own | common, **output})
    return ranks


def start_ranks(ranks: list[dict[str, Any]], timeout: float) -> list[int]:
    """Start each rank as a new process, and return the exit statuses."""
    deadline = time.monotonic() + timeout
    started = []
    try:
        for rank in ranks:
            with Path(rank["stdout"]).open("wb") as out, Path(rank["stderr"]).open("wb") as err:
                process = subprocess.Popen(
                    rank["arguments"],
                    cwd=rank["cwd"],
                    env=rank["env"],
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            started.append(process)
        return [process.wait(max(0.1, deadline - time.monotonic())) for process in started]
    finally:
        for process in started:
            kill_group(process.pid)
            process.wait()


def _losses(database: Path, experiment: str) -> dict[int, float]:
    if not database.exists():
        return {}
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "select step, value from metrics join runs using (run_uuid)"
            " join experiments using (experiment_id) where key = 'loss' and experiments.name = ?",
            [experiment],
        )
        return dict(rows.fetchall())


@pytest.fixture(scope="session")
def fault() -> Callable[[int, int, str], dict[str, str]]:
    """Environment in which a rank gets a signal as a step (from 0) begins: `fault(1, 6, "SIGTERM")`."""
    folder = Path(__file__).with_name("faults")
    return lambda rank, step, name: {"PYTHONPATH": str(folder), "FAULT": f"{rank} {step} {name}"}


@pytest.fixture
def group_of_one() -> Iterator[Any]:
    """A mesh of this process only, whose tensors are spread all the same."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    finally:
        dist.destroy_process_group()

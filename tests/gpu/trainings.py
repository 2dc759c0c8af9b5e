"""What the checks share: results, shards, plans, and the entry script of a component run as it is planned."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Document = dict[str, Any]
LOOPS = Path(__file__).resolve().with_name("loops.py")
H100 = "Standard_ND96isr_H100_v5"  # what the rehearsal plans for
TOKENS = 50_304  # of GPT-2's vocabulary, filled up to a multiple of 64
TINY_TOKENS, TINY_ROWS, TINY_VOCABULARY = 32, 300, 300  # of the rehearsal's texts


class NotHereError(Exception):
    """A check cannot be run here; the text says why."""


@dataclass
class Trial:
    """A check as it runs: what it may use, and what it has found so far.

    Attributes:
        device: `cuda`, or `cpu` for the rehearsal.
        work: a folder for files, the same for all checks.
        end: when its time is over, in seconds since 1970.
        so_far: the document with the results of the checks before it.
        file: where the result is written.
    """

    device: str
    work: Path
    end: float
    so_far: Path
    file: Path
    result: Document = field(default_factory=lambda: {"said": [], "faults": [], "not_here": []})

    @property
    def tiny(self) -> bool:
        """Whether sizes are those of the rehearsal."""
        return self.device == "cpu"

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.end - time.time()

    def say(self, text: str, **measured: Any) -> None:
        """Add a sentence about what was found, and numbers by name."""
        self.result["said"].append(text)
        self.keep(**measured)

    def keep(self, **measured: Any) -> None:
        """Keep numbers by name, in case that time ends."""
        self.result.update(measured)
        write_whole(self.file, json.dumps(self.result))

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a fault if something does not hold."""
        if not holds:
            self.result["faults"].append(otherwise)
            self.keep()

    def on_gpu(self, what: str) -> bool:
        """Whether there is a GPU; if not, note that something could not be tried."""
        if self.device != "cuda":
            self.result["not_here"].append(f"not on this device: {what}")
        return self.device == "cuda"


def write_whole(file: Path, text: str) -> None:
    """Write a file that is never seen in part."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def add_shared_code() -> Path:
    """Let this process import what components share; return the folder of the components."""
    from worldsize.base import resources

    shared = str(resources.components() / "_shared")
    if shared not in sys.path:
        sys.path.insert(0, shared)
    return resources.components()


def find_instance_type(gpu: str) -> str:
    """The smallest VM size with the GPU that a driver calls so; the rehearsal's if none has it."""
    from worldsize.facts import gpus, vm_sizes
    from worldsize.planning.estimates.clusters import find_gpu

    wanted = gpus.lookup_product(gpu)
    sizes = [size for size in map(vm_sizes.lookup, vm_sizes.names()) if size is not None]
    fitting = [size for size in sizes if wanted is not None and find_gpu(size) == wanted]
    return min(fitting, key=lambda size: size.devices).name if fitting else H100


@functools.cache
def device_name(device: str) -> str:
    """What the driver calls the GPU."""
    if device == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name()


def plan_steps(
    trial: Trial, steps: Mapping[str, Document], *, tokens: int = 1024, vocabulary: int = TOKENS
) -> dict[str, Document]:
    """Plan trainings on one GPU of this machine's kind by `worldsize`: each step's inputs, and its memory.

    Args:
        trial: the check.
        steps: inputs of `train_ddp` by the step's name; `micro` and `accumulation` are pinned.
        tokens: of a row of text.
        vocabulary: of the text.
    """
    import yaml

    folder = trial.work / f"plan-{random.getrandbits(32):08x}"
    folder.mkdir()
    instance_type = find_instance_type(device_name(trial.device))
    spec: Document = {
        "name": "gpu_kit",
        "compute": {"gpu": {"target": "azureml:gpu", "instance_type": instance_type}},
        "steps": {
            "shard": {
                "uses": "shard_data",
                "compute": "gpu",
                "with": {
                    "source": "builtin:python-source",
                    "tokenizer": "bpe",
                    "vocabulary_size": vocabulary,
                    "sequence_length": tokens,
                },
            }
        },
    }
    for name, inputs in steps.items():
        own = dict(inputs)
        micro, accumulation = own.pop("micro"), own.pop("accumulation", 1)
        reference = {"batch_size": micro * accumulation, "learning_rate": own.pop("learning_rate", 6e-4)}
        scale = {"reference": reference, "rule": "none"}
        scale |= {"batch_size_per_device": micro, "gradient_accumulation_steps": accumulation}
        step = {"uses": "train_ddp", "compute": "gpu", "process_count_per_instance": 1}
        spec["steps"][name] = {**step, "with": own, "scale": scale}
    (folder / "spec.yml").write_text(json.dumps(spec), encoding="utf-8")
    # What does not fit is planned too: it is tried on purpose.
    (folder / "worldsize.yml").write_text("ignore: [WS3]\n", encoding="utf-8")
    run_worldsize("compile", "spec.yml", "-o", "build", folder=folder)
    planned = json.loads(run_worldsize("plan", "spec.yml", "--memory", "--json", folder=folder))["steps"]
    jobs = yaml.safe_load((folder / "build" / "pipeline.yml").read_text(encoding="utf-8"))["jobs"]
    return {name: {"inputs": jobs[name]["inputs"], "memory": planned[name].get("memory")} for name in steps}


def run_worldsize(*words: str, folder: Path, status: int = 0) -> str:
    """Run a command of worldsize; return what it printed, with the errors if it is to fail."""
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != status:
        raise RuntimeError(f"`worldsize {' '.join(words)}` ended with {done.returncode}: {done.stderr[:600]}")
    return done.stdout + (done.stderr if status else "")


def make_token_shards(
    trial: Trial, *, tokens: int = 1024, vocabulary: int = TOKENS, rows: int = 1500
) -> Path:
    """Random words through `shard_data` with a tokenizer of so many words; made once.

    A rehearsal has one small set for all checks, unless they ask for a vocabulary.
    """
    if trial.tiny:
        tokens, rows = TINY_TOKENS, TINY_ROWS
    shards = trial.work / f"tokens-{tokens}-{vocabulary}-{rows}"
    with shards.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a check beside this one may be making them
        if not shards.exists():
            _make_token_shards(trial, shards, tokens, vocabulary, rows)
    return shards


def _make_token_shards(trial: Trial, shards: Path, tokens: int, vocabulary: int, rows: int) -> None:
    import numpy as np

    data = trial.work / f"{shards.name}-text"
    data.mkdir(exist_ok=True)
    words = {f"w{number}": number for number in range(vocabulary)}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    }
    (data / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    drawn = np.random.default_rng(0).zipf(1.3, (rows * 10 // 8, tokens + 1)) % vocabulary
    for number, some in enumerate(np.array_split(drawn, 16)):
        text = "\n".join(" ".join(f"w{token}" for token in row) for row in some.tolist())
        (data / f"{number}.txt").write_text(text, encoding="utf-8")
    options = {"format": "text", "tokenizer": "tokenizer.json", "sequence_length": tokens}
    shard(trial, shards, data, **options)


def shard(trial: Trial, shards: Path, data: Path, **options: Any) -> Path:
    """Run `shard_data` on a folder."""
    components = add_shared_code()
    unfinished = trial.work / f"{shards.name}-new"
    arguments = ["--data", str(data), "--shards", str(unfinished), *write_flags(options)]
    done = subprocess.run(
        [sys.executable, "shard.py", *arguments],
        cwd=components / "shard_data" / "src",
        env=make_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"shard_data ended with {done.returncode}: {done.stderr[-600:]}")
    return unfinished.rename(shards)


def write_flags(inputs: Mapping[str, Any]) -> list[str]:
    """Inputs as a command line; those of the plan that name an Azure VM are left out, and what is bound."""
    flags: list[str] = []
    for name, value in inputs.items():
        if name.startswith("planned_") or "${{" in str(value):
            continue
        flags += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
    return flags


def make_environment(**more: str) -> dict[str, str]:
    """Variables for a component's process."""
    shared = str(add_shared_code() / "_shared")
    paths = [more.pop("PYTHONPATH", ""), shared, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


@dataclass
class Ended:
    """How a process of a training ended, and what it recorded."""

    status: int
    said: str
    records: list[Document]

    @property
    def losses(self) -> dict[int, float]:
        """The loss of each step, from 1."""
        return {each["step"]: each["loss"] for each in self.records if "loss" in each}

    @property
    def windows(self) -> list[Document]:
        """The steps that were reported together: their number and their seconds."""
        return [each for each in self.records if "steps" in each]

    def find(self, name: str) -> Any:
        """The last value that was recorded by a name; None if there is none."""
        return next((each[name] for each in reversed(self.records) if name in each), None)

    def expect_status(self, status: int = 0) -> Ended:
        """Return this, or raise an error with what it said."""
        if self.status != status:
            raise RuntimeError(f"a training ended with {self.status}, not {status}: {self.said[-700:]}")
        return self


@dataclass
class Started:
    """A process of a training that was started."""

    process: subprocess.Popen[bytes]
    folder: Path
    rank: int

    def wait(self, seconds: float) -> Ended:
        """Wait for its end; it is killed where that takes longer."""
        try:
            status = self.process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        text = (self.folder / f"said-{self.rank}").read_text(encoding="utf-8", errors="replace")
        print(text, flush=True)
        return Ended(status, text, read_records(self.folder / f"record-{self.rank}"))


def read_records(file: Path) -> list[Document]:
    """The lines of a file that a training recorded into."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last may be cut short
            found.append(json.loads(line))
    return found


def start_training(
    trial: Trial,
    inputs: Mapping[str, Any],
    *,
    component: str = "train_ddp",
    folder: Path | None = None,
    ranks: int = 1,
    pass_fds: Sequence[int] = (),
    **env: str,
) -> list[Started]:
    """Start a component's entry script once for each rank, all on the first GPU; see `loops.py`.

    Args:
        trial: the check.
        inputs: of the component; outputs go to the folder.
        component: its name.
        folder: for outputs, logs and records; a new one by default.
        ranks: processes.
        pass_fds: descriptors that the processes get.
        env: variables for them.
    """
    entry = add_shared_code() / component / "src" / "train.py"
    folder = folder or trial.work / f"train-{random.getrandbits(32):08x}"
    folder.mkdir(exist_ok=True)
    outputs = {"checkpoints": folder / "checkpoints", "trained_model": folder / "model"}
    arguments = write_flags({**outputs, "hang_timeout": 600, **inputs})
    command = [sys.executable, str(LOOPS), "entry", str(entry), *arguments]
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_port())}
    common |= {"CUDA_VISIBLE_DEVICES": ""} if trial.device == "cpu" else {}
    started = []
    for rank in range(ranks):
        own = {
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "NODE_RANK": "0",
            "RECORD": str(folder / f"record-{rank}"),
        }
        with (folder / f"said-{rank}").open("ab") as said:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=make_environment(**common, **own, **env),
                stdout=said,
                stderr=said,
                pass_fds=pass_fds,
            )
        started.append(Started(process, folder, rank))
    return started


def train(trial: Trial, inputs: Mapping[str, Any], *, seconds: float | None = None, **more: Any) -> Ended:
    """Run a training in one process to its end."""
    (started,) = start_training(trial, inputs, **more)
    return started.wait(seconds or trial.left)


def find_free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def waiting_ranks(started: Sequence[Started]) -> Iterator[None]:
    """Kill what is left of a group at the end."""
    try:
        yield
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()

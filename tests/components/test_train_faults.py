"""What train_ddp says when something is wrong: one sentence on every rank, no traceback, nothing left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(400)]

Training = Callable[..., Any]
PLAN = {
    "epochs": 1,
    "batch_size_per_device": 32,
    "global_batch_size": 64,
    "learning_rate": 0.1,
    "model": "mlp",
}


@pytest.fixture(scope="session")
def digits(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("digits")


@pytest.fixture
def code(snapshots: Callable[[str], Path], tmp_path: Path) -> Path:
    """A snapshot of our own to put the user's files in."""
    shutil.copytree(snapshots("train_ddp"), tmp_path / "code")
    return tmp_path / "code"


def only_errors(run: Any) -> list[str]:
    """The first line of each rank, after checking that all failed alike and quietly."""
    for rank in run.ranks:
        assert rank.status == 2, run.errors
        assert "Traceback" not in rank.stderr
        assert rank.stderr.startswith("error: ")
        assert len(rank.stderr.splitlines()) <= 2
    assert not (run.folder / "model").exists()
    return [rank.stderr.splitlines()[0] for rank in run.ranks]


def test_a_wrong_world_size_stops_before_torch_is_loaded(
    training: Training, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("raise AssertionError('torch is loaded')")
    env = {"PYTHONPATH": str(tmp_path)}
    run = training(2, shards=digits, env=env, cold=True, **(PLAN | {"world_size": 8}))
    expected = "error: the plan is for 8 processes but the launcher started 2"
    assert only_errors(run) == [expected, expected]


def test_a_global_batch_that_is_not_the_product_is_refused(training: Training, digits: Path) -> None:
    run = training(2, shards=digits, **(PLAN | {"global_batch_size": 100, "gradient_accumulation_steps": 1}))
    assert "`global_batch_size` is 100 but 32 a device" in only_errors(run)[0]


def test_a_corrupted_shard_is_named_by_every_rank(training: Training, digits: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "shards"
    shutil.copytree(digits, damaged)
    shard = damaged / "train" / "shard-00003.arrow"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    for message in only_errors(training(2, shards=damaged, **PLAN)):
        assert "shard `train/shard-00003.arrow` is corrupted" in message


def test_a_full_disk_leaves_no_checkpoint_that_looks_whole(
    training: Training, built_in_shards: Callable[[str], Path]
) -> None:
    # A limit on the size of files is a disk that fills up while the state, of 10 MB, is being written.
    wide = {"model": "gpt", "gpt_width": 256, "gpt_layers": 1, "checkpoint_every_steps": 1, "epochs": 0.01}
    run = training(2, shards=built_in_shards("python-source"), largest_file_kib=4096, **(PLAN | wide))
    for message in only_errors(run):
        assert message == "error: cannot write checkpoint `step-00000001`: file too large"
    assert list((run.folder / "checkpoints").iterdir()) == []


def test_fewer_rows_than_a_global_batch_are_refused(training: Training, digits: Path) -> None:
    big = {"batch_size_per_device": 1000, "global_batch_size": 2000}
    message = only_errors(training(2, shards=digits, **(PLAN | big)))[0]
    assert message == "error: the shards have 1438 training rows, fewer than one global batch of 2000"


def test_a_loss_that_is_not_finite_stops_all_ranks_and_is_never_saved(
    training: Training, digits: Path
) -> None:
    run = training(2, shards=digits, **(PLAN | {"learning_rate": 1e30, "checkpoint_every_steps": 1}))
    first, second = only_errors(run)
    assert first == second
    assert first.startswith("error: the loss of step 2 is nan on every rank, at learning rate 9.")
    assert "help: the last good checkpoint is `step-00000001`; lower the learning" in run.ranks[0].stderr
    assert [path.name for path in (run.folder / "checkpoints").iterdir()] == ["step-00000001"]


@pytest.mark.parametrize("limited", [False, True])
def test_half_precision_is_used_where_the_device_has_it(
    training: Training, digits: Path, *, limited: bool
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    plan = PLAN | {"batch_size_per_device": 64, "epochs": 0.1}
    env = {"ONEDNN_MAX_CPU_ISA": "AVX2"} if limited else None
    run = training(1, shards=digits, precision="fp16", env=env, cold=limited, **plan)
    if not limited and torch.ops.mkldnn._is_mkldnn_fp16_supported():
        assert run.ok, run.errors
        return
    assert "precision `fp16` needs a GPU" in only_errors(run)[0]
    assert "`worldsize run --set STEP.precision=fp32`" in run.ranks[0].stderr


def test_bfloat16_trains_on_a_cpu(training: Training, digits: Path) -> None:
    run = training(1, shards=digits, precision="bf16", **(PLAN | {"batch_size_per_device": 64}))
    assert run.ok, run.errors
    assert run.losses[max(run.losses)] < run.losses[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "model file `mine/net.py` does not exist in the code folder"),
        ("def other(): ...", "model file `mine/net.py` has no function `net`"),
        ("def net(classes): raise KeyError('weights')", "`mine/net.py:net` raised KeyError: 'weights'"),
        ("def net(classes): return 7", "`mine/net.py:net` returned `int`, not a torch.nn.Module"),
        ("def net(layers): ...", "`mine/net.py:net` needs a parameter `layers`, which is not offered"),
        ("import nowhere", "importing model file `mine/net.py` raised ModuleNotFoundError"),
        (
            "from torch import nn\ndef net(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))",
            "`mine/net.py:net`: the model returns [2, 3] for 2 samples, the task needs [2, 10]",
        ),
        (
            "from torch import nn\ndef net(): return nn.Linear(7, 10)",
            "`mine/net.py:net`: the model fails on samples [2, 1, 8, 8]: RuntimeError",
        ),
    ],
)
def test_a_users_model_that_does_not_fit(
    training: Training, digits: Path, code: Path, source: str | None, message: str
) -> None:
    if source is not None:
        (code / "mine").mkdir()
        (code / "mine" / "net.py").write_text(source)
    plan = PLAN | {"model": "mine/net.py:net", "batch_size_per_device": 64}
    assert message in only_errors(training(1, shards=digits, code=code, **plan))[0]


def test_batch_normalisation_is_warned_about_and_still_trains(
    training: Training, digits: Path, code: Path
) -> None:
    (code / "net.py").write_text(
        "from torch import nn\n"
        "from helper import HIDDEN\n"
        "def net(input_shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(),\n"
        "                         nn.Linear(HIDDEN, classes))\n"
    )
    (code / "helper.py").write_text("HIDDEN = 16\n")
    run = training(2, shards=digits, code=code, **(PLAN | {"model": "net.py:net"}))
    assert run.ok, run.errors
    assert "the model has batch normalisation" in run.ranks[0].stderr
    assert (run.folder / "model" / "MLmodel").is_file()


def test_a_model_that_cannot_be_exported_is_refused_before_training(
    training: Training, digits: Path, code: Path
) -> None:
    (code / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, classes):\n"
        "        super().__init__()\n"
        "        self.out = nn.Linear(64, classes)\n"
        "    def forward(self, x):\n"
        "        return self.out(x.flatten(1)) if x.sum().item() < 1e9 else self.out(-x.flatten(1))\n"
        "def net(classes): return Net(classes)\n"
    )
    plan = PLAN | {"model": "net.py:net", "batch_size_per_device": 64}
    message = only_errors(training(1, shards=digits, code=code, **plan))[0]
    assert "the model cannot be exported by torch.export" in message


def test_unknown_and_unfitting_models(training: Training, digits: Path) -> None:
    one = PLAN | {"batch_size_per_device": 64}
    assert "unknown model `cn`" in only_errors(training(1, shards=digits, **(one | {"model": "cn"})))[0]
    assert "needs shards of text" in only_errors(training(1, shards=digits, **(one | {"model": "gpt"})))[0]


def test_another_trainings_checkpoint_is_not_taken_up(training: Training, digits: Path) -> None:
    one = PLAN | {"batch_size_per_device": 64, "shards": digits}
    first = training(1, stop_after_steps=1, **one)
    assert first.ok, first.errors
    found = first.folder / "checkpoints"
    message = only_errors(training(1, resume_from=found, **(one | {"seed": 3})))[0]
    assert message == "error: checkpoint `step-00000001` was trained with `seed` 0, but this run has 3"
    empty = only_errors(training(1, resume_from=digits, **one))[0]
    assert "`resume_from` has no whole checkpoint" in empty


def test_a_rank_that_dies_is_noticed_at_once_by_the_other(
    training: Training, digits: Path, code: Path
) -> None:
    (code / "net.py").write_text(
        "import os\n"
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    calls = 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        if self.calls > 12 and os.environ['RANK'] == '1':\n"
        "            os._exit(9)\n"
        "        return super().forward(x)\n"
        "def net(classes): return Net(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    run = training(2, shards=digits, code=code, **(PLAN | {"model": "net.py:net"}))
    survivor, dead = run.ranks
    assert (survivor.status, dead.status) == (1, 9), run.errors
    assert "error: another rank has gone, so this one stops" in survivor.stderr
    assert "Traceback" not in survivor.stderr

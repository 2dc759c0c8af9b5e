"""Scalars of TensorBoard's event files, written by TensorFlow's own records and messages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize.reporting.event_files import read_event_files

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(120)]

NAME = "events.out.tfevents.1700000000.host.1.0"


@pytest.fixture(scope="module")
def write() -> Callable[..., None]:
    """A function that writes scalars as `torch.utils.tensorboard` does, or as `tf.summary` does."""
    import tensorflow as tf
    from tensorflow.core.util import event_pb2

    def write(path: Path, tag: str, values: list[float], *, tensors: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path)) as records:
            records.write(event_pb2.Event(wall_time=1.5, file_version="brain.Event:2").SerializeToString())
            for step, value in enumerate(values):
                event = event_pb2.Event(wall_time=1.5, step=step * 1000)
                entry = event.summary.value.add(tag=tag)
                if tensors:
                    entry.metadata.plugin_data.plugin_name = "scalars"
                    entry.tensor.CopyFrom(tf.make_tensor_proto(value))
                else:
                    entry.simple_value = value
                event.summary.value.add(tag="weights").histo.num = 3
                records.write(event.SerializeToString())

    return write


def test_both_forms_of_scalars_are_read(write: Callable[..., None], tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a" / NAME, "Loss/train", [0.5, 0.25])

    assert read_event_files(tmp_path) == {"Loss/train": [(0, 0.5), (1000, 0.25)]}

    write(tmp_path / "runs" / "a" / NAME, "epoch_loss", [2.0, 1.0], tensors=True)

    assert read_event_files(tmp_path) == {"epoch_loss": [(0, 2.0), (1000, 1.0)]}


def test_keras_folders_are_told_apart_and_files_of_one_folder_joined(
    write: Callable[..., None], tmp_path: Path
) -> None:
    write(tmp_path / "logs" / "train" / NAME, "epoch_loss", [2.0], tensors=True)
    write(tmp_path / "logs" / "validation" / NAME, "epoch_loss", [3.0], tensors=True)
    write(tmp_path / "logs" / "validation" / f"{NAME}.2", "epoch_loss", [3.0, 2.5], tensors=True)

    assert read_event_files(tmp_path, tmp_path / "nothing") == {
        "train/epoch_loss": [(0, 2.0)],
        "validation/epoch_loss": [(0, 3.0), (1000, 2.5)],
    }


@pytest.mark.filterwarnings("ignore::worldsize.base.untrusted.UnreadWarning")
def test_what_is_damaged_or_not_a_file_is_left_out(write: Callable[..., None], tmp_path: Path) -> None:
    write(tmp_path / NAME, "loss", [3.0, 2.0, 1.0])
    whole = (tmp_path / NAME).read_bytes()
    os.mkfifo(tmp_path / f"{NAME}.pipe")
    (tmp_path / f"{NAME}.link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path)
    for end in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:end])
        points = read_event_files(tmp_path).get("loss", [])
        assert points == [(0, 3.0), (1000, 2.0), (2000, 1.0)][: len(points)]
    for place in range(12, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        read_event_files(tmp_path)


def test_the_report_of_a_script_of_ones_own_draws_them(write: Callable[..., None], tmp_path: Path) -> None:
    write(tmp_path / "code" / "source" / NAME, "Loss/validation", [0.75, 0.5, 0.25])
    (tmp_path / "code" / "train.py").write_text("import shutil\nshutil.copytree('source', 'runs')\n")
    (tmp_path / "job.yml").write_text(
        "type: command\ncommand: python train.py\ncode: ./code\ncompute: azureml:cpu\n"
        "environment: azureml:AzureML-sklearn-1.5@latest\n"
    )
    command = [sys.executable, "-m", "worldsize", "run", "job.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = tmp_path.glob(".worldsize/runs/*/report.html")
    text = page.read_text(encoding="utf-8")
    assert "Loss/validation" in text
    assert "0.25" in text.partition("Metrics of")[2]

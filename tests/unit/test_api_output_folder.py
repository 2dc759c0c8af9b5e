"""What compile writes, and what stays when it cannot."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml as pyyaml

import worldsize
from worldsize.api import output_folder
from worldsize.documents.errors import OutputError, SpecError
from worldsize.planning import plan_file

HEAD = """\
name: s
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5, max_instances: 4}}
"""
TRAIN = """\
  train:
    uses: train_ddp
    instance_count: 2
    with: {epochs: 2, optimizer: sgd, model: nets/mine.py:build, shards: ./data}
    scale: {reference: {batch_size: 32, learning_rate: 0.05}, rows: 1000, warmup_epochs: 0}
"""
OWN = "  own: {command: python a.py, code: ./code, environment: azureml:e:1}\n"


def listing(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "code/a.py": "print(1)\n",
        "nets/mine.py": "def build():\n    return None\n",
        "data/manifest.json": "{}",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def write(folder: Path, steps: str) -> Path:
    (folder / "spec.yml").write_text(f"{HEAD}steps:\n{steps}")
    return folder / "spec.yml"


def test_a_users_file_joins_the_snapshot_at_its_place(tree: Path) -> None:
    compiled = worldsize.compile(write(tree, TRAIN), tree / "out")
    folder = tree / "out/components/train_ddp__train"
    assert (folder / "src/nets/mine.py").read_text().startswith("def build")
    assert (folder / "src/train.py").is_file()
    assert (folder / "src/wsshards/__init__.py").is_file()
    document = pyyaml.safe_load((folder / "component.yml").read_text())
    assert "additional_includes" not in document
    assert document["code"] == "./src"
    job = pyyaml.safe_load(compiled.pipeline.read_text())
    step = job["jobs"]["train"]
    assert step["component"] == "./components/train_ddp__train/component.yml"
    assert step["inputs"]["shards"] == {"type": "uri_folder", "path": "../data"}


def test_code_beside_uses_is_added_under_its_own_name(tree: Path) -> None:
    steps = TRAIN.replace("    uses: train_ddp\n", "    uses: train_ddp\n    code: ./nets\n")
    worldsize.compile(write(tree, steps), tree / "out")
    assert (tree / "out/components/train_ddp__train/src/nets/mine.py").is_file()


def test_equal_components_share_a_folder(tree: Path) -> None:
    two = TRAIN.replace("model: nets/mine.py:build", "model: mlp")
    steps = two + two.replace("train:", "more:") + TRAIN.replace("train:", "mine:") + OWN
    compiled = worldsize.compile(write(tree, steps), tree / "out")
    folders = {name.split("/")[1] for name in compiled.files if name.startswith("components/")}
    assert folders == {"train_ddp", "train_ddp__mine", "own"}


def test_a_pipeline_component_brings_its_own(tree: Path) -> None:
    (tree / "inner.yml").write_text(
        "type: command\nname: inner\ncommand: python a.py\ncode: ./code\nenvironment: azureml:e:1\n"
    )
    (tree / "outer.yml").write_text(
        "type: pipeline\nname: outer\njobs:\n  one: {type: command, component: ./inner.yml}\n"
        "  two: {command: python a.py, code: ./code, environment: {image: i, conda_file: ./conda.yml}}\n"
    )
    (tree / "conda.yml").write_text("dependencies: [python=3.11]\n")
    worldsize.compile(write(tree, "  nested: {uses: ./outer.yml}\n"), tree / "out")
    outer = pyyaml.safe_load((tree / "out/components/outer/component.yml").read_text())
    assert outer["jobs"]["one"]["component"] == "../inner/component.yml"
    assert (tree / "out/components/inner/src/a.py").is_file()
    assert (tree / "out/components/outer" / outer["jobs"]["two"]["code"] / "a.py").is_file()
    conda = outer["jobs"]["two"]["environment"]["conda_file"]
    assert (tree / "out/components/outer" / conda).is_file()
    job = pyyaml.safe_load((tree / "out/pipeline.yml").read_text())
    assert job["jobs"]["nested"]["type"] == "pipeline"


def test_the_plan_is_read_back(tree: Path) -> None:
    compiled = worldsize.compile(write(tree, TRAIN), tree / "out")
    loaded = plan_file.load(tree / "out")
    assert loaded is not None
    plan, templates = loaded
    assert plan == compiled.plan
    assert templates["train"]["world_size"] == "${{plan.world_size}}"
    assert set(json.loads((tree / "out/plan.json").read_text())["files"]) == set(compiled.files) - {
        "plan.json"
    }


def test_an_earlier_output_is_replaced_as_a_whole(tree: Path) -> None:
    worldsize.compile(write(tree, TRAIN), tree / "out")
    worldsize.compile(write(tree, OWN), tree / "out")
    assert not (tree / "out/components/train_ddp__train").exists()
    worldsize.compile(write(tree, OWN), tree / "fresh")
    assert listing(tree / "out") == listing(tree / "fresh")
    assert sorted(path.name for path in tree.iterdir() if path.name.startswith(".")) == []


def test_what_we_did_not_write_is_not_replaced(tree: Path) -> None:
    spec = write(tree, OWN)
    (tree / "out").mkdir()
    (tree / "out/notes.md").write_text("mine")
    with pytest.raises(OutputError, match="is not empty and was not written by"):
        worldsize.compile(spec, tree / "out")
    worldsize.compile(spec, tree / "ours")
    (tree / "ours/notes.md").write_text("mine")
    with pytest.raises(OutputError, match=r"holds `notes\.md`, which"):
        worldsize.compile(spec, tree / "ours")
    assert (tree / "ours/notes.md").read_text() == "mine"
    with pytest.raises(OutputError, match="is a file"):
        worldsize.compile(spec, spec)


def test_a_faulty_spec_leaves_the_output(tree: Path) -> None:
    worldsize.compile(write(tree, OWN), tree / "out")
    before = listing(tree / "out")
    with pytest.raises(SpecError, match=r"`code` names `\./cod`") as caught:
        worldsize.compile(write(tree, OWN.replace("./code", "./cod")), tree / "out")
    assert [found.slug for found in caught.value.diagnostics] == ["code-missing"]
    assert listing(tree / "out") == before
    assert not (tree / "never").exists()


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_full_disk_leaves_the_output(tree: Path) -> None:
    worldsize.compile(write(tree, OWN), tree / "out")
    before = listing(tree / "out")
    (tree / "code/large.bin").write_bytes(b"x" * 500_000)

    def limit() -> None:  # stands for a full disk: no file may grow beyond 100 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [sys.executable, "-B", "-m", "worldsize", "compile", "spec.yml", "-o", "out"]
    result = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: `out` could not be written: file too large")
    assert "Traceback" not in result.stderr
    assert listing(tree / "out") == before
    assert sorted(path.name for path in tree.iterdir()) == ["code", "data", "nets", "out", "spec.yml"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_said(tree: Path) -> None:
    (tree / "locked").mkdir(mode=0o555)
    with pytest.raises(OutputError, match="permission denied"):
        worldsize.compile(write(tree, OWN), tree / "locked/out")


def test_a_file_that_vanishes_leaves_the_output(tmp_path: Path) -> None:
    output_folder.write_folder({"plan.json": b"{}"}, tmp_path / "out")
    with pytest.raises(OutputError, match=r"no such file or directory \(`gone`\)"):
        output_folder.write_folder({"a": b"1", "b": tmp_path / "gone"}, tmp_path / "out")
    assert listing(tmp_path) == {"out/plan.json": b"{}"}


def test_modes_say_only_what_can_be_executed(tmp_path: Path) -> None:
    for name, mode in (("a", 0o600), ("b", 0o777)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    output_folder.write_folder({"a": tmp_path / "a", "b": tmp_path / "b", "c": b""}, tmp_path / "out")
    modes = [(tmp_path / "out" / name).stat().st_mode & 0o777 for name in "abc"]
    assert modes == [0o644, 0o755, 0o644]


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_the_command_says_what_it_wrote_and_how_to_submit_it(tree: Path) -> None:
    write(tree, OWN)
    command = [sys.executable, "-m", "worldsize", "compile", "spec.yml", "-o", "out"]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == [
        "wrote out",
        "  compute/cpu-cluster.yml",
        "  pipeline.yml",
        "  plan.json",
        "  components/own/  (2 files)",
        "",
        "submit it:",
        "  az ml compute create -f out/compute/cpu-cluster.yml",
        "  az ml job create -f out/pipeline.yml",
    ]


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_schedule_is_created_in_place_of_a_job(tree: Path) -> None:
    """It starts its first job itself."""
    write(tree, OWN + 'schedule: {cron: "0 3 * * 1"}\n')
    command = [sys.executable, "-m", "worldsize", "compile", "spec.yml", "-o", "out"]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-2:] == [
        "  az ml job create -f out/pipeline.yml    # either once, or",
        "  az ml schedule create -f out/schedule.yml    # by its schedule",
    ]


def test_a_foreign_folder_is_refused_without_reading_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    listed: list[Path] = []
    scandir = os.scandir

    def counted(folder: Path) -> Iterator[os.DirEntry[str]]:
        listed.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    with pytest.raises(OutputError, match="is not empty and was not written"):
        output_folder.check_target(tmp_path)
    assert len(listed) == 2  # the folder and the first in it


KILLED = """
import os, pathlib, signal, sys
from worldsize.api import output_folder
rename = pathlib.Path.rename
def killed(self, target):
    if self.name == "new":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
pathlib.Path.rename = killed
output_folder.write_folder({"a.txt": b"new"}, pathlib.Path("out"))
"""


@pytest.mark.smoke
@pytest.mark.run  # starts Python
@pytest.mark.skipif(sys.platform == "win32", reason="locks and signals of POSIX")
def test_what_a_killed_compile_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output_folder.write_folder({"a.txt": b"old"}, Path("out"))
    done = subprocess.run([sys.executable, "-c", KILLED], timeout=60, check=False)
    assert done.returncode == -9
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".out.")]
    output_folder.write_folder({"a.txt": b"newer"}, Path("out"))
    assert listing(tmp_path) == {"out/a.txt": b"newer"}


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_what_another_compile_is_writing_stays(tmp_path: Path) -> None:
    import fcntl

    theirs = tmp_path / ".out.theirs.part"
    theirs.mkdir()
    with (theirs / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        output_folder.write_folder({"a.txt": b"ours"}, tmp_path / "out")
        assert theirs.exists()
    output_folder.write_folder({"a.txt": b"ours"}, tmp_path / "out")
    assert not theirs.exists()


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_compiles_at_once_leave_one_whole_output(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from worldsize.api import output_folder\n"
        "from worldsize.documents.errors import OutputError\n"
        "for _ in range(30):\n"
        "    files = {name: sys.argv[1].encode() for name in ('a', 'b', 'c')}\n"
        "    output_folder.write_folder(files, pathlib.Path('out'))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, each], cwd=tmp_path, stderr=subprocess.PIPE)
        for each in ("one", "two")
    ]
    said = [process.communicate(timeout=60)[1] for process in running]
    assert said == [b"", b""]
    assert len(set(listing(tmp_path / "out").values())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]

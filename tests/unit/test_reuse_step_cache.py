"""What a run finds of earlier ones: tasks are done by writing their outputs, no process is started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldsize.azureml.model import Component, Field
from worldsize.azureml.snapshot import Snapshot
from worldsize.running.environments.definition import EnvironmentPlan
from worldsize.running.launch.call import prepare_step_folder
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.task import ARTIFACTS, File, Joined, Output, RunName, Source, Task, Text
from worldsize.running.reuse import digests, step_cache
from worldsize.running.reuse.digests import Digests, make_stamp
from worldsize.running.reuse.step_cache import ReuseCache
from worldsize.running.reuse.store import Original, Store, read_original


def task(name: str, inputs: dict[str, Source | None], *, deterministic: bool = True, **more: Any) -> Task:
    component = Component(
        path=None,
        type="command",
        name=None,
        version=None,
        inputs={},
        outputs={},
        command=Field("true"),
        is_deterministic=None if deterministic else Field(False),
    )
    return Task(name, component, Path(), inputs=inputs, outputs={"out": "uri_folder"}, **more)


class Home:
    """A folder of runs, and the tasks that each of them has."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data.csv"
        self.data.write_text("1,2")
        self.source = root / "code.py"
        self.source.write_text("pass")
        self.tasks = {
            "make": task("make", {"data": File(self.data), "epochs": Text(3), "none": None}),
            "read": task("read", {"made": Output("make", "out")}),
        }
        self.said: list[str] = []
        self.number = 0

    def begin(self, number: int | None = None, **more: Any) -> ReuseCache:
        self.number = self.number + 1 if number is None else number
        run = RunFolder(self.root / "runs" / f"run-{self.number}")
        run.root.mkdir(parents=True, exist_ok=True)
        store = Store(self.root)
        code = {name: Snapshot({"code.py": self.source}) for name in self.tasks}
        digests = Digests(store.digests, clock=lambda: time.time_ns() + 10**10)
        return ReuseCache(run, self.tasks, code, store, digests, EnvironmentPlan(), self.said.append, **more)

    def run(
        self, *, during: Callable[[str], object] = lambda _name: None, **more: Any
    ) -> dict[str, str | None]:
        """Do every task that is not found; from which run each came."""
        memory = self.begin(**more)
        found = {}
        for name, each in self.tasks.items():
            found[name] = memory.recall(each)
            if found[name] is None:
                self.do(memory, each)
                during(name)
                memory.keep(each, 1.0)
        return found

    def do(self, memory: ReuseCache, each: Task) -> None:
        prepare_step_folder(each, memory.code[each.name], memory.run)
        (memory.run.step(each.name).outputs / "out" / "value").write_text(f"of {each.name}")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


AGAIN = {"make": "run-1", "read": "run-1"}


def test_an_unchanged_run_finds_everything(home: Home) -> None:
    assert home.run() == {"make": None, "read": None}
    assert home.run() == AGAIN
    assert home.run() == AGAIN
    folder = RunFolder(home.root / "runs" / "run-3").step("make")
    assert (folder.outputs / "out" / "value").read_text() == "of make"
    assert read_original(folder) == Original("run-1", "make")
    assert {entry.hits for entry in Store(home.root).entries()} == {2}
    assert home.said == []


def test_what_depends_on_a_change_runs_up_to_where_nothing_differs(home: Home) -> None:
    home.run()
    home.data.write_text("3,4")  # `make` makes the same of it, so that `read` has nothing to do
    assert home.run() == {"make": None, "read": "run-1"}
    home.source.write_text("import os")
    assert home.run() == {"make": None, "read": None}
    home.data.write_text("1,2")
    home.source.write_text("pass")
    assert home.run() == AGAIN


def test_a_renamed_file_is_another_input(home: Home) -> None:
    home.run()
    renamed = home.data.rename(home.data.with_suffix(".tsv"))
    home.tasks["make"] = task("make", {"data": File(renamed), "epochs": Text(3), "none": None})
    assert home.run() == {"make": None, "read": "run-1"}


def test_force_and_steps_that_are_not_deterministic_find_nothing(home: Home) -> None:
    home.tasks["read"] = task("read", {"made": Output("make", "out")}, deterministic=False)
    home.run()
    assert home.run() == {"make": "run-1", "read": None}
    assert home.run(force=True) == {"make": None, "read": None}
    assert home.run() == {"make": "run-3", "read": None}  # what was forced is the newest


def test_outputs_that_were_changed_are_said_and_made_anew(home: Home) -> None:
    home.run()
    (home.root / "runs" / "run-1" / "steps" / "make" / "outputs" / "out" / "value").write_text("by somebody")
    assert home.run() == {"make": None, "read": "run-1"}
    assert home.said == ["make: runs again, its output in run run-1 has changed since: out/value"]
    assert home.run() == {"make": "run-2", "read": "run-1"}
    assert len(home.said) == 1


def test_a_step_that_writes_into_its_input_spoils_nothing(home: Home) -> None:
    def spoil(name: str) -> None:
        if name == "read":
            (RunFolder(home.root / "runs" / "run-1").step("make").outputs / "out" / "value").write_text("!")

    home.run(during=spoil)
    assert home.said == ["read: will not be reused, its input `made` has changed while it ran"]
    home.said.clear()
    assert home.run() == {"make": None, "read": None}
    assert home.said == ["make: runs again, its output in run run-1 has changed since: out/value"]
    assert home.run() == {"make": "run-2", "read": "run-2"}


@pytest.mark.parametrize("what", ["data", "source"])
def test_a_step_whose_files_change_while_it_runs_is_not_kept(what: str, home: Home) -> None:
    def edit(name: str) -> None:
        if name == "make":
            getattr(home, what).write_text("edited")

    home.run(during=edit)
    part = "code" if what == "source" else "input `data`"
    assert home.said[0] == f"make: will not be reused, its {part} has changed while it ran"
    assert home.run()["make"] is None


def test_a_run_that_is_gone_is_forgotten(home: Home) -> None:
    home.run()
    (home.root / "runs" / "run-1").rename(home.root / "elsewhere")
    assert home.run() == {"make": None, "read": None}
    assert home.said == []
    assert home.run() == {"make": "run-2", "read": "run-2"}


def test_the_same_step_twice_in_one_run_runs_twice(home: Home) -> None:
    home.tasks = {name: task(name, {}) for name in ("one", "two")}
    assert home.run() == {"one": None, "two": None}
    assert set(home.run().values()) == {"run-1"}


def test_the_name_of_the_job_is_another_each_time(home: Home) -> None:
    home.tasks = {"named": task("named", {"x": Joined((Text("run "), RunName()))})}
    home.run()
    assert home.run() == {"named": None}


def test_artifacts_are_kept_where_a_step_reads_them(home: Home) -> None:
    home.run()
    home.tasks["files"] = task("files", {"folder": Output("make", ARTIFACTS)})
    assert home.run() == {"make": None, "read": "run-1", "files": None}  # nobody had listed the folder
    assert home.run() == {"make": "run-2", "read": "run-1", "files": "run-2"}
    (home.root / "runs" / "run-2" / "steps" / "make" / "code" / "outputs" / "more").touch()
    assert home.run() == {"make": None, "read": "run-1", "files": "run-2"}


def test_an_input_that_cannot_be_read_makes_a_step_run(home: Home) -> None:
    home.run()
    home.data.unlink()
    home.data.symlink_to("data.csv")
    assert home.run()["make"] is None
    assert home.run()["make"] is None


def resumed(home: Home, *steps: str) -> ReuseCache:
    return home.begin(1, earlier=frozenset(steps))


def test_a_resumed_run_takes_over_what_it_had_made(home: Home) -> None:
    home.tasks["make"] = task("make", {"data": File(home.data)}, deterministic=False)
    home.run()
    memory = resumed(home, "make")
    assert memory.recall(home.tasks["make"]) == "run-1"
    folder = memory.run.step("read")
    assert memory.recall(home.tasks["read"]) is None  # its end is not known
    assert not (folder.root / step_cache.MADE).exists()
    assert list(folder.outputs.iterdir()) == []
    home.do(memory, home.tasks["read"])
    memory.keep(home.tasks["read"], 1.0)
    assert resumed(home, "make", "read").recall(home.tasks["make"]) == "run-1"


def test_a_resumed_step_finds_its_checkpoints_and_only_those(home: Home) -> None:
    home.tasks = {"train": task("train", {"epochs": Text(1)})}
    run = home.begin().run
    prepare_step_folder(home.tasks["train"], Snapshot({}), run)
    step = run.step("train")
    for name in ("out", "checkpoints"):
        (step.outputs / name).mkdir(exist_ok=True)
        (step.outputs / name / "half").touch()
    (step.logs / "rank-0.log").write_text("so far")
    assert resumed(home).recall(home.tasks["train"]) is None
    assert [path.name for path in step.outputs.rglob("*")] == ["checkpoints", "half"]
    assert (step.logs / "attempt-1" / "rank-0.log").read_text() == "so far"
    home.do(resumed(home), home.tasks["train"])


def test_a_step_whose_runner_died_before_it_was_in_the_store_gets_there(home: Home) -> None:
    home.run()
    store = Store(home.root)
    for entry in store.entries():
        store.remove(entry)
    memory = resumed(home, "make", "read")
    assert [memory.recall(each) for each in home.tasks.values()] == ["run-1", "run-1"]
    assert home.run(number=2) == AGAIN


def test_a_resumed_run_says_what_has_changed(home: Home) -> None:
    home.run()
    home.tasks["make"] = task("make", {"data": File(home.data), "epochs": Text(4), "none": None})
    assert resumed(home, "make", "read").recall(home.tasks["make"]) is None
    assert home.said == ["make: runs again, its input `epochs` has changed since"]


def test_a_resumed_run_does_not_touch_what_its_reused_steps_point_to(home: Home) -> None:
    home.run()
    home.run()
    original = RunFolder(home.root / "runs" / "run-1").step("make")
    memory = home.begin(2, earlier=frozenset(["make"]))
    assert memory.recall(home.tasks["make"]) == "run-1"
    home.source.write_text("changed")
    assert home.begin(2, earlier=frozenset(["make"])).recall(home.tasks["make"]) is None
    assert (original.outputs / "out" / "value").read_text() == "of make"
    assert not RunFolder(home.root / "runs" / "run-2").step("make").root.exists()


def test_links_out_of_the_runs_are_not_followed_and_nothing_that_read_them_is_reused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = home.root / "outside"
    outside.mkdir()
    (outside / "large").write_text("1")
    looked = list[os.stat_result]()

    def look(status: os.stat_result) -> digests.Stamp:
        looked.append(status)
        return make_stamp(status)

    monkeypatch.setattr(digests, "make_stamp", look)
    links = {"all": "/", "near": "../../../../..", "data": str(outside / "large")}

    def link(name: str) -> None:
        if name == "make":
            folder = RunFolder(home.root / "runs" / f"run-{home.number}").step(name).outputs / "out"
            for place, target in links.items():
                (folder / place).symlink_to(target)

    assert home.run(during=link) == {"make": None, "read": None}
    assert len(looked) < 50
    assert home.said == ["make: will not be reused, its output `out` has links out of the runs"]
    assert home.run(during=link) == {"make": None, "read": None}
    (outside / "large").write_text("2")
    again = home.begin(2, earlier=frozenset({"make", "read"}))  # resumed: nothing is done again
    assert [again.recall(each) for each in home.tasks.values()] == ["run-2", "run-2"]


def test_links_into_other_runs_are_followed(home: Home) -> None:
    def link(name: str) -> None:
        if name == "read":
            folder = RunFolder(home.root / "runs" / f"run-{home.number}")
            (folder.step(name).outputs / "out" / "made").symlink_to(folder.step("make").outputs / "out")

    home.run(during=link)
    assert home.run(during=link) == AGAIN
    (home.root / "runs" / "run-1" / "steps" / "make" / "outputs" / "out" / "value").write_text("another")
    assert home.run(during=link) == {"make": None, "read": None}

"""Digests, trees and the store: what they notice, and what they leave when something dies."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.running.model.folder import StepFolder
from worldsize.running.record.json_files import read_json, write_json
from worldsize.running.reuse import digests as digesting
from worldsize.running.reuse import step_cache
from worldsize.running.reuse.digests import Digests, Tree
from worldsize.running.reuse.step_cache import (
    OutputRecord,
    load_output_record,
    save_output_record,
    verify_outputs,
)
from worldsize.running.reuse.store import Store, StoreEntry

LATER = 10_000_000_000  # ns


def settled(folder: Path | None = None) -> Digests:
    """Digests by a clock that is ahead, so that files are old enough to be remembered."""
    return Digests(folder, clock=lambda: time.time_ns() + LATER)


def reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (digesting, step_cache):
        monkeypatch.setattr(module, "boot_id", lambda: "another")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    (root / "a" / "empty").mkdir(parents=True)
    (root / "a" / "one.txt").write_text("one")
    (root / "two.bin").write_bytes(b"\0\1" * 1000)
    (root / "link").symlink_to("a")
    (root / "round").symlink_to(".")
    (root / "nothing").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    return root


def test_a_tree_lists_everything_once_and_follows_links(data: Path) -> None:
    found = settled().tree(data)
    assert set(found.files) == {"a/one.txt", "link/one.txt", "two.bin"}
    assert set(found.folders) == {"a", "a/empty", "link", "link/empty", "round"}
    assert set(found.others) == {"nothing", "pipe"}
    assert found.size == 3 + 3 + 2000


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file's bytes": lambda root: (root / "two.bin").write_bytes(b"\1\0" * 1000),
    "a file's name": lambda root: (root / "two.bin").rename(root / "three.bin"),
    "a new file": lambda root: (root / "a" / "new").touch(),
    "a file gone": lambda root: (root / "two.bin").unlink(),
    "a new folder": lambda root: (root / "b").mkdir(),
    "a folder gone": lambda root: (root / "a" / "empty").rmdir(),
    "a link to nothing": lambda root: (root / "nothing").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_digest_changes_with_every_content_and_name(change: str, data: Path, tmp_path: Path) -> None:
    digests = settled(tmp_path / "memo")
    before = digests.tree(data).digest()
    CHANGES[change](data)
    assert digests.tree(data).digest() != before


def test_a_digest_does_not_depend_on_place_or_time(data: Path, tmp_path: Path) -> None:
    before = settled().tree(data).digest()
    os.utime(data / "two.bin", (1, 1))
    data.rename(tmp_path / "elsewhere")
    assert settled().tree(tmp_path / "elsewhere").digest() == before


def test_caches_that_python_leaves_are_not_content(data: Path) -> None:
    before = Digests().tree(data).digest()
    (data / "__pycache__").mkdir()
    (data / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"compiled")
    assert Digests().tree(data).digest() == before


def test_a_file_is_read_once_until_it_changes(data: Path, tmp_path: Path) -> None:
    first = settled(tmp_path / "memo")
    first.tree(data)
    assert first.hashed == 2 + 1  # one is there under two names
    again = settled(tmp_path / "memo")
    again.tree(data)
    assert again.hashed == 0
    before = (data / "two.bin").stat()
    (data / "two.bin").write_bytes(b"\1\0" * 1000)  # as long as before, and given back its time
    os.utime(data / "two.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
    third = settled(tmp_path / "memo")
    third.tree(data)
    assert third.hashed == 1


def test_a_young_file_is_never_remembered(data: Path, tmp_path: Path) -> None:
    for _ in range(2):
        digests = Digests(tmp_path / "memo")
        found = digests.tree(data)
        assert digests.hashed == 3
        assert all(leaf.stamp is None for leaf in found.files.values())


@pytest.mark.parametrize(
    "damage", ["", "[]", "{", '{"boot": "another", "files": {}}', '{"files": {"x": 3}}', "\0\0\0"]
)
def test_a_damaged_memo_is_no_memo(damage: str, data: Path, tmp_path: Path) -> None:
    before = settled(tmp_path / "memo").tree(data).digest()
    (memo,) = (tmp_path / "memo").iterdir()
    memo.write_text(damage)
    digests = settled(tmp_path / "memo")
    assert digests.tree(data).digest() == before
    assert digests.hashed == 3


def test_nothing_is_remembered_beyond_a_boot(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(tmp_path / "memo").tree(data)
    reboot(monkeypatch)
    digests = settled(tmp_path / "memo")
    digests.tree(data)
    assert digests.hashed == 3


def test_hashing_stops_when_it_is_asked_to(data: Path) -> None:
    with pytest.raises(InterruptedError):
        Digests(stop=lambda: True).tree(data)


LEAF = st.builds(
    digesting.Leaf,
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 1 << 50),
    st.none() | st.tuples(*[st.integers(0, 1 << 62)] * 4),
)
NAMES = st.text(min_size=1, max_size=8)


@given(st.dictionaries(NAMES, LEAF, max_size=4), st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3))
def test_a_tree_survives_json(
    leaves: dict[str, digesting.Leaf], folders: list[str], others: list[str]
) -> None:
    tree = digesting.Tree("folder", leaves, tuple(folders), tuple(others))
    assert msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(tree))), Tree) == tree


@given(st.dictionaries(NAMES, LEAF, max_size=4), st.dictionaries(NAMES, LEAF, max_size=4))
def test_trees_have_one_digest_exactly_if_names_and_contents_are_equal(
    one: dict[str, digesting.Leaf], other: dict[str, digesting.Leaf]
) -> None:
    contents = [{name: leaf.sha256 for name, leaf in each.items()} for each in (one, other)]
    digests = [digesting.Tree("folder", each).digest() for each in (one, other)]
    assert (digests[0] == digests[1]) == (contents[0] == contents[1])


@pytest.fixture
def step(tmp_path: Path) -> StepFolder:
    folder = StepFolder(tmp_path / "step")
    (folder.outputs / "model").mkdir(parents=True)
    (folder.outputs / "model" / "weights").write_bytes(b"w" * 100)
    return folder


def kept(step: StepFolder, digests: Digests) -> OutputRecord:
    done = OutputRecord("k" * 64, {"code": "c"}, {"model": digests.tree(step.outputs / "model")}, 1.5)
    save_output_record(done, step)
    found = load_output_record(step)
    assert found == done
    return done


def test_outputs_left_alone_are_believed_without_being_read(step: StepFolder) -> None:
    done = kept(step, settled())
    digests = settled()
    assert verify_outputs(done, step, digests) == (done, None)
    assert digests.hashed == 0


def test_outputs_that_were_young_are_read_once_more_and_believed_from_then_on(step: StepFolder) -> None:
    done = kept(step, Digests())
    digests = settled()
    now, changed = verify_outputs(done, step, digests)
    assert (changed, digests.hashed) == (None, 1)
    assert verify_outputs(now, step, digests) == (now, None)
    assert digests.hashed == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "weights").write_bytes(b"v" * 100), "model/weights"),
        (lambda folder: (folder / "weights").unlink(), "model/weights"),
        (lambda folder: (folder / "more").touch(), "model/more"),
        (lambda folder: (folder / "more").mkdir(), "model/more"),
        (lambda folder: folder.rename(folder.with_name("other")), "model"),
    ],
)
def test_outputs_that_changed_are_named(
    change: Callable[[Path], object], said: str, step: StepFolder
) -> None:
    done = kept(step, settled())
    change(step.outputs / "model")
    assert verify_outputs(done, step, settled())[1] == said


def test_outputs_touched_but_equal_are_the_same(step: StepFolder) -> None:
    done = kept(step, settled())
    os.utime(step.outputs / "model" / "weights")
    now, changed = verify_outputs(done, step, settled())
    assert changed is None
    assert now != done


def test_after_a_crash_of_the_machine_bytes_are_read_again(
    step: StepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = kept(step, settled())
    reboot(monkeypatch)
    digests = settled()
    assert verify_outputs(done, step, digests)[1] is None
    assert digests.hashed == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}', '{"version": 99}', "\0" * 50])
def test_a_damaged_listing_is_none(damage: str, step: StepFolder) -> None:
    kept(step, settled())
    (step.root / step_cache.MADE).write_text(damage)
    assert load_output_record(step) is None


ENTRY = StoreEntry("a" * 64, "20260101-000000-000", "train", 1e9, 12.5, 1000)


def test_the_store_finds_what_was_added_and_counts_its_use(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.empty
    assert store.find(ENTRY.key) is None
    store.add(ENTRY)
    assert store.find(ENTRY.key) == ENTRY
    store.count(ENTRY)
    store.count(ENTRY)
    (found,) = store.entries()
    assert found.hits == 2
    assert found.newest > ENTRY.made
    store.remove(found)
    assert store.empty
    assert list(store.root.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        '{"version": 1}',
        '{"version": 1, "run": "../x", "step": "s", "made": 1, "seconds": 1, "size": 1}',
        '{"version": 1, "run": "r", "step": "..", "made": 1, "seconds": 1, "size": 1}',
        '{"version": 1, "run": "r", "step": "s", "made": "soon", "seconds": 1, "size": 1}',
    ],
)
def test_a_damaged_entry_is_none_and_is_tidied_away(damage: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(ENTRY)
    (store.root / f"{ENTRY.key}.json").write_text(damage)
    (store.root / f"{'b' * 64}.hits").write_text("..")
    (store.root / ".x.part").touch()
    os.utime(store.root / ".x.part", (1, 1))
    assert store.find(ENTRY.key) is None
    assert store.entries() == []
    store.tidy()
    assert list(store.root.iterdir()) == []


def test_writers_at_once_leave_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    seen: list[object] = []

    def write(number: int) -> None:
        for _ in range(50):
            write_json(path, {"by": number, "filler": "x" * 5000})
            seen.append(read_json(path))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(each, dict) and len(each["filler"]) == 5000 for each in seen)
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"x": object()})
    (tmp_path / "y.json").mkdir()
    with pytest.raises(OSError, match=r"y\.json"):
        write_json(tmp_path / "y.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["y.json"]

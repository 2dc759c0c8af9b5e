"""A proof finds what the script reads from the folder above, and writes nothing there."""

from __future__ import annotations

from pathlib import Path

from worldsize.adopting.proving.prove import ROOM, copy_folder, copy_outside

TEXT = 'rows = open("../data/rows.csv")\nword = "../"\nfar = open("../../../../../far.csv")\nodd = "../\\0"\n'


def test_what_is_named_outside_of_the_folder_is_copied_to_where_the_script_looks(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/rows.csv").write_text("1", encoding="utf-8")
    code = tmp_path / "code"
    code.mkdir()
    script = copy_folder(code, tmp_path / "proof/adopted" / ROOM / "code", "train.py", b"")

    copy_outside(code, script.parent, TEXT)

    copy = script.parent / "../data/rows.csv"
    assert copy.read_text(encoding="utf-8") == "1"
    assert copy.resolve().is_relative_to(tmp_path / "proof/adopted")
    assert sorted(each.name for each in script.parent.parent.iterdir()) == ["code", "data"]


def test_a_folder_that_is_named_is_a_copy_too(tmp_path: Path) -> None:
    (tmp_path / "models/old").mkdir(parents=True)
    code = tmp_path / "code"
    code.mkdir()
    script = copy_folder(code, tmp_path / "proof/original" / ROOM / "code", "train.py", b"")

    copy_outside(code, script.parent, 'save("../models")')
    (script.parent / "../models/new").mkdir()

    assert [each.name for each in (tmp_path / "models").iterdir()] == ["old"]

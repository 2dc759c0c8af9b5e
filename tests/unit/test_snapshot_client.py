"""Our snapshots hold the files that azure-ai-ml would upload, and have the same hash."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from worldsize.azureml import component as reader
from worldsize.azureml import snapshot
from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.ignore import compile_lines

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from azure.ai.ml._utils import _asset_utils as client
    from azure.ai.ml._utils._pathspec import GitWildMatchPattern
    from azure.ai.ml.entities import CommandComponent

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.filterwarnings("ignore")]

HEAD = "type: command\nname: c\nversion: '1'\ncommand: ls\nenvironment: azureml:e:1\n"
TREE = {
    "src/a.py": "1", "src/a.log": "2", "src/keep.log": "3", "src/.env": "4", "src/data/x.csv": "5",
    "src/data/keep.csv": "6",
    "src/data/deep/y.csv": "7", "src/deep/.gitignore": "y.csv\n", "src/deep/data/y.csv": "8",
    "src/Cap/B.PY": "9",
    "src/__pycache__/a.pyc": "10", "src/deep/z file.txt": "11", "lib/a.py": "12", "lib/.amlignore": "deep/\n",
    "lib/deep/b.py": "13", "lib/a.log": "14", "one.log": "15", "one.txt": "16",
    ".gitignore": "*.py\n", ".amlignore": "*.py\n",
}  # fmt: skip
LINKS = {"src/linked": "../lib", "src/link.log": "a.py", "src/other.py": "../one.txt"}
IGNORES = [
    "", "*.log\n!keep.log\n", "data/\n", "data\n!data/keep.csv\n", "/data/*\n!keep.csv\n",
    "\ufeff*.log\n# data\n",
    "linked/\n", "linked\n", "../lib\n", "/linked/a.py\n", "**/y.csv\n", "deep/**\n", "*\n!*.py\n",
    "src\n", "[a-k]*.log\r\n*.PY\r\n",
    "  .env  \n", "z\\ file.txt\n", ".*\n", "?.log\n", "**/\n", ".gitignore\n.amlignore\n",
]  # fmt: skip
INCLUDES = [
    "",
    "additional_includes: [../lib, ../one.log, ../one.txt]\n",
    "additional_includes: [../.amlignore, ../lib]\n",
]


def tree(root: Path, ignores: dict[str, str], *, links: bool) -> None:
    for name, text in {**TREE, **ignores}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
    for name, target in LINKS.items() if links else ():
        (root / name).symlink_to(target)


def compared(folder: Path, text: str) -> None:
    """The two lists of places, and the two hashes, of one component."""
    folder.mkdir(exist_ok=True)
    (folder / "component.yml").write_text(HEAD + text)
    found, _ = reader.read_component(folder / "component.yml")
    assert found is not None
    ours, problems = snapshot.read_snapshot(found, folder, CopyAccess())
    assert not problems
    theirs = CommandComponent(
        name="c",
        command="ls",
        environment="azureml:e:1",
        code=found.code.value if found.code else None,
        additional_includes=found.additional_includes.value if found.additional_includes else None,
        base_path=folder,
    )
    with theirs._build_code() as code:
        path, ignore_file = (folder / code.path).resolve(), code._ignore_file
        uploaded = [(path, path.name)]
        if path.is_dir():
            uploaded = client.get_upload_files_from_folder(path, ignore_file=ignore_file)
        assert ours.listing() == sorted(place for _, place in uploaded), text
        listed = [(str(source), place) for place, source in ours.files.items()]
        assert client._get_file_list_content_hash(listed) == client.get_content_hash(path, ignore_file)


@pytest.mark.parametrize("includes", INCLUDES, ids=["plain", "includes", "ignore-included"])
@pytest.mark.parametrize("name", [".amlignore", ".gitignore"])
def test_what_is_uploaded_and_its_hash_are_the_client_s(tmp_path: Path, name: str, includes: str) -> None:
    if f"../{name}" in includes:
        return  # the client refuses an include of the same name, and so do we
    for number, lines in enumerate(IGNORES):
        root = tmp_path / str(number)
        tree(root, {f"src/{name}": lines}, links=True)
        compared(root / "c", f"code: ../src\n{includes}")


@pytest.mark.parametrize("code", ["", "code: ../src/a.py\n", "code: ../src/deep\n"])
def test_code_of_one_file_or_none(tmp_path: Path, code: str) -> None:
    tree(tmp_path, {}, links=True)
    compared(tmp_path / "c", f"{code}{INCLUDES[1].replace('../lib, ', '') if code else INCLUDES[1]}")


def test_an_ignore_file_of_a_folder_above_does_not_count(tmp_path: Path) -> None:
    tree(tmp_path, {}, links=False)
    (tmp_path / ".git").mkdir()
    compared(tmp_path / "c", "code: ../src\n")
    found, _ = reader.read_component(tmp_path / "c" / "component.yml")
    assert found is not None
    assert "a.py" in snapshot.read_snapshot(found, tmp_path / "c", CopyAccess())[0].files


NAME = st.text(alphabet="ab.*?[]!^-\\", max_size=6)
LINE = st.lists(NAME | st.sampled_from(["**", "*", "", "a", "b"]), min_size=1, max_size=5).map("/".join)


PATH = st.lists(st.text(alphabet="ab.-!^[]\\", min_size=1, max_size=4), min_size=1, max_size=5)


def exclude(texts: list[str], parts: list[str]) -> bool:
    return bool(compile_lines(texts).decide(parts))


def client_excludes(texts: list[str], path: str) -> bool:
    """What the client says of a file with these lines, of which it leaves out those it cannot read."""
    excluded = False
    for text in texts:
        try:
            pattern = GitWildMatchPattern(text)
        except (ValueError, re.error):
            continue
        if pattern.include is not None and pattern.match_file(path) is not None:
            excluded = pattern.include
    return excluded


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(lines=st.lists(st.tuples(st.sampled_from(["", "!", "/", "!/"]), LINE), max_size=6), parts=PATH)
def test_lines_mean_what_the_client_says(lines: list[tuple[str, str]], parts: list[str]) -> None:
    texts = [start + line for start, line in lines]
    assume(
        len(parts) == 1 or not any("[!" in text or "[^" in text for text in texts)
    )  # there a class of the client's takes a slash too
    path = "/".join(parts)
    assert exclude(texts, parts) == client_excludes(texts, path)
    if compile_lines(texts).exclude_below(parts):
        assert client_excludes(texts, f"{path}/q/r")
    assert exclude(texts, [*parts, "a"]) == client_excludes(texts, f"{path}/a")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("[]", ["[]", "[", ""]),
        ("[!]", ["[!]", "!", "a"]),
        ("[]-]", ["]", "-", "a"]),
        ("[]-a]", ["]", "a", "^", "b"]),
        ("[!]a-]", ["]", "b"]),
        ("[^a]", ["^", "a", "b"]),
        ("[!^a]", ["^", "b"]),
        ("[a-c0-9_]x", ["bx", "9x", "_x", "dx"]),
        ("[b-a]", ["a", "[b-a]"]),
        ("[[a]", ["[", "a"]),
        ("[a\\]b]", ["\\b]", "ab]", "]"]),
        ("\u00e4?\U0001f600*", ["\u00e4x\U0001f600", "\u00e4\U0001f600\U0001f600y", "ax\U0001f600"]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_class_of_characters_is_read_as_the_client_reads_it(line: str, names: list[str]) -> None:
    for name in filter(None, names):
        assert exclude([line], [name]) == client_excludes([line], name), name


def test_of_many_lines_the_last_that_matches_decides() -> None:
    filler = "w" * 60
    texts = [f"{'!' * (number % 2)}*x{number}*{filler[: number % 50]}y" for number in range(1500)]
    texts += ["*z", "deep/**/a?c/", "!keep.z", "a*"]
    texts += [f"[q]{filler}{number}" for number in range(1500)]
    theirs = [GitWildMatchPattern(text) for text in texts]
    for path in ("ax17ay", f"ax1{filler}y", "bx1499wwwwy", "bx1450y", "x1y", "q.z", "keep.z", "deep/q/abc/d",
                 "deep/abc", "ax1z", f"q{filler}7", "x8yx52wwyx1401wy", "x1401wyx8yx52wwy"):  # fmt: skip
        wanted = [pattern.include for pattern in theirs if pattern.match_file(path)]
        assert exclude(texts, path.split("/")) == (bool(wanted) and wanted[-1]), path

"""The reader of pages: what a fence becomes on the disk, and what is rewritten in a page."""

from __future__ import annotations

from pathlib import Path

import case_pages
import pytest

PAGE = r"""# A page

```shared/job.yml
name: a
```

## bad.yml
One reason.

```bad.yml
## no heading: "é"
```
```expected
old
```

## bad_more/

````src/readme.md
```yaml
inner
```
````
```latin.txt escaped
caf\xe9\\\r
no end\
```
```link.yml link
../bad.yml
```
```8x6.png
8x6
```
```empty.csv
```

## good.yml

```good.yml
a: 1
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "WS1-page.md"
    path.write_bytes(PAGE.encode())
    return path


def test_a_page_is_read_as_the_files_of_one_folder(page: Path, tmp_path: Path) -> None:
    read = case_pages.read(page)
    assert [(str(case), case.reason, case.expected) for case in read.cases] == [
        ("WS1-page/bad.yml", "One reason.", "old\n"),
        ("WS1-page/bad_more", "", None),
        ("WS1-page/good.yml", "", None),
    ]
    folder = case_pages.write(read.files, tmp_path / "written")
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    assert files["bad_more/link.yml"].readlink() == Path("../bad.yml")
    assert files["bad_more/8x6.png"].read_bytes()[12:24] == b"IHDR\0\0\0\x08\0\0\0\x06"
    del files["bad_more/8x6.png"]
    assert {name: path.read_bytes() for name, path in files.items()} == {
        "shared/job.yml": b"name: a\n",
        "bad.yml": '## no heading: "é"\n'.encode(),
        "bad_more/src/readme.md": b"```yaml\ninner\n```\n",
        "bad_more/latin.txt": b"caf\xe9\\\r\nno end",
        "bad_more/link.yml": '## no heading: "é"\n'.encode(),
        "bad_more/empty.csv": b"",
        "good.yml": b"a: 1\n",
    }


def test_a_case_has_the_files_of_every_case_and_may_replace_them(page: Path) -> None:
    page.write_text(PAGE.replace("```good.yml\n", "```shared/job.yml\n"), encoding="utf-8")
    read = case_pages.read(page)
    texts = [{file.path: file.text for file in read.list_files(case)} for case in read.cases]
    assert texts[0].keys() == {"shared/job.yml", "bad.yml"}
    assert texts[2] == {"shared/job.yml": "a: 1\n"}


@pytest.mark.parametrize(
    "text", ["```\na: 1\n```\n", "```a.yml links\n```\n", "```a.yml\na: 1\n", "````a.yml\n```\n"]
)
def test_a_fence_that_cannot_be_read_is_an_error(page: Path, text: str) -> None:
    page.write_text(f"{PAGE}\n{text}", encoding="utf-8")
    with pytest.raises(ValueError, match="a fence has no path"):
        case_pages.read(page)


def test_what_is_said_is_rewritten_in_its_place(page: Path) -> None:
    first, second, _ = case_pages.read(page).cases
    case_pages.write_expected(first, "old\n")
    assert page.read_bytes() == PAGE.encode()
    case_pages.write_expected(first, "new\n```\n")
    case_pages.write_expected(second, "more\n")
    assert page.read_bytes().decode() == PAGE.replace(
        "```expected\nold\n```", "````expected\nnew\n```\n````"
    ).replace("```empty.csv\n```", "```empty.csv\n```\n```expected\nmore\n```")

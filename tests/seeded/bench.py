"""A seeded-fault bench: small projects with one fault each, and right ones that look unusual.

``python tests/seeded/bench.py`` prints a table by class, ``--all`` each case that was not found on its line.
A case is a project in a Markdown page, which ``tests/support/case_pages.py`` reads:

    ## required-flag-missing
    argparse exits with status 2 on every node after the cluster has started.

    ```job.yml
    command: python train.py --epochs 3 ⟵
    ```

An arrow at the end of a line marks where the fault may be reported: one of the marked lines is enough.
``«base64:64»`` stands for so many random bytes (also ``url``, ``hex`` and ``letters``), so that nothing here
looks like a key to a scanner.
"""

from __future__ import annotations

import base64
import random
import re
import string
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import worldsize

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

import case_pages  # noqa: E402

ARROW = "⟵"
_RANDOM = re.compile(r"«(base64|url|hex|letters):(\d+)»")


class Case(NamedTuple):
    """A project, and where its fault is to be reported; a control has no such place."""

    group: str  # the class of the fault
    name: str
    reason: str
    files: list[case_pages.File]
    places: frozenset[tuple[str, int]]  # the path inside the project, and the line


class Judged(NamedTuple):
    """What the checker says of a case: on its lines, and the errors and warnings elsewhere."""

    case: Case
    found: list[str]
    others: list[str]


def read_cases(folder: Path) -> list[Case]:
    """The cases of all Markdown files below a folder; the first part of a file's name is the group."""
    return [case for page in case_pages.read_all(folder) for case in _read_page(page)]


def _read_page(page: case_pages.Page) -> Iterator[Case]:
    for case in page.cases:
        places, files = set(), []
        for file in page.list_files(case):
            lines = file.text.splitlines()
            places |= {(file.path, number) for number, line in enumerate(lines, 1) if line.endswith(ARROW)}
            plain = "".join(line.removesuffix(ARROW).rstrip() + "\n" for line in lines)
            files.append(file._replace(text=_fill_in(plain, str(case))))
        yield Case(page.path.stem.split("-")[0], str(case), case.reason, files, frozenset(places))


def _fill_in(text: str, seed: str) -> str:
    """Put random text in the place of each ``«kind:length»``; the same at every call."""

    def make(match: re.Match[str]) -> str:
        content = random.Random(seed).randbytes(int(match[2]))
        encoded = base64.b64encode(content).decode()
        return {
            "base64": encoded,
            "url": quote(encoded, safe=""),
            "hex": content.hex(),
            "letters": "".join(string.ascii_letters[byte % 52] for byte in content),
        }[match[1]]

    return _RANDOM.sub(make, text)


def judge(case: Case, folder: Path) -> Judged:
    """Check the project of a case in an empty folder."""
    case_pages.write(case.files, folder)
    found, others = [], []
    for diagnostic in worldsize.check([str(folder)]).diagnostics:
        path = Path(diagnostic.span.path).resolve().relative_to(folder.resolve()).as_posix()
        if diagnostic.severity == "info":
            continue
        said = f"{path}:{diagnostic.span.line} {diagnostic.severity} {diagnostic.code} {diagnostic.message}"
        if (path, diagnostic.span.line) in case.places:
            found.append(said)
        else:
            others.append(said)
    return Judged(case, found, others)


def judge_all(kind: str) -> list[Judged]:
    """Judge the faults or the controls."""
    cases = read_cases(HERE / kind)
    with tempfile.TemporaryDirectory() as folder:  # one, because each would be an entry of a big folder
        return [judge(case, Path(folder) / str(number)) for number, case in enumerate(cases)]


def count_found(judged: list[Judged]) -> dict[str, int]:
    """How many faults of each class are found on their line."""
    counts: dict[str, int] = defaultdict(int)
    for one in judged:
        counts[one.case.group] += bool(one.found)
    return dict(counts)


def _print_table(faults: list[Judged], controls: list[Judged]) -> None:
    columns = ("cases", "on the line", "elsewhere", "missed", "extra findings")
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * len(columns))
    for one in faults:
        for group in (one.case.group, "all faults"):
            elsewhere = bool(one.others) and not one.found
            found = bool(one.found)
            counts = (1, found, elsewhere, not (found or elsewhere), len(one.others) * found)
            rows[group] = [total + count for total, count in zip(rows[group], counts, strict=True)]
    print(f"{'':16}" + "".join(f"{column:>16}" for column in columns))
    for group, totals in sorted(rows.items(), key=lambda row: row[0] == "all faults"):
        print(f"{group:16}" + "".join(f"{total:16}" for total in totals))
    alarms = [one for one in controls if one.others]
    print(f"\n{len(controls)} controls: {len(alarms)} with false alarms")


def _print_cases(judged: list[Judged]) -> None:
    for one in judged:
        state = "alarm" if not one.case.places else "elsewhere" if one.others else "missed"
        if one.others or one.case.places:
            print(f"\n{'found' if one.found else state}: {one.case.name}: {one.case.reason}")
            print("".join(f"    {line}\n" for line in [*one.found, *one.others]), end="")


if __name__ == "__main__":
    results = judge_all("faults"), judge_all("controls")
    if "--all" in sys.argv:
        _print_cases([*results[0], *results[1]])
    _print_table(*results)

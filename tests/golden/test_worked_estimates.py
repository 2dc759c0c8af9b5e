"""Every spec, command and output of the page of worked estimates: the commands run, the outputs are theirs.

A ```yaml block whose first line is ``# NAME.yml`` is that file. A ```console block has commands after ``$``,
each with its output below it; `head`, `tail` and `grep -E` cut it down. A ```python block has its output in
the ```text block below it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from shared_golden import replace_part

import worldsize
from worldsize.cli.main import main

PAGE = Path(__file__).parents[2] / "compiler" / "docs" / "worked_estimates.md"
FRONT = PAGE.with_name("front.svg")
_WORDS = re.compile(r">([^<>]*[a-z][^<>]*)</(?:text|tspan)>")
_BLOCK = re.compile(r"^```(yaml|console|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECTIONS = re.split(r"^(?=## )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def name(section: str) -> str:
    return section.partition("\n")[0].strip("# ")


def cut(text: str, command: list[str]) -> str:
    """What `head -N`, `tail -N` or `grep -E 'PATTERN'` leaves of a text."""
    lines = text.splitlines(keepends=True)
    program, *words = command
    if program == "grep":
        return "".join(line for line in lines if re.search(words[1], line))
    count = int(words[0].removeprefix("-"))
    return "".join(lines[:count] if program == "head" else lines[-count:])


def run_line(line: str) -> str:
    """The output of a command line of the page."""
    command, *filters = line.split(" | ")
    program, *words = shlex.split(command)
    assert program == "worldsize"
    result = CliRunner().invoke(main, words)
    assert result.exit_code in (0, 1), result.output
    text = result.output
    for each in filters:
        text = cut(text, shlex.split(each))
    return text.replace("\n\n\n", "\n\n")


def run_console(body: str) -> str:
    commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {line}\n{run_line(line).strip(chr(10))}\n" for line in commands)


def run_python(body: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(body, "page.py", "exec"), {})
    return printed.getvalue()


def render_section(section: str) -> str:
    """The section with the outputs that its commands have now."""
    printed: list[str] = []

    def render(match: re.Match[str]) -> str:
        kind, body = match.groups()
        if kind == "yaml" and body.startswith("# "):
            Path(body.splitlines()[0][2:]).write_text(body.partition("\n")[2], encoding="utf-8")
        elif kind == "console":
            body = run_console(body)
        elif kind == "python":
            printed.append(run_python(body))
        elif kind == "text":
            body = printed.pop()
        return f"```{kind}\n{body}```"

    return _BLOCK.sub(render, section)


@pytest.mark.parametrize("section", _SECTIONS, ids=name)
def test_the_outputs_are_those_of_the_commands(
    section: str, tmp_path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rendered = render_section(section)
    if update_golden:
        replace_part(PAGE, section, rendered)
        return
    assert rendered == section


@pytest.mark.parametrize("section", [each for each in _SECTIONS if "\nsteps:" in each], ids=name)
def test_specs_are_clean_or_the_page_shows_what_is_reported(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, body in _BLOCK.findall(section):
        if kind == "yaml" and "\nsteps:" in body:
            file = body.splitlines()[0][2:]
            Path(file).write_text(body.partition("\n")[2], encoding="utf-8")
            report = worldsize.check(file)
            for diagnostic in report.diagnostics:
                assert f"$ worldsize check {file}" in section
                assert f"[{diagnostic.code}]" in section


def test_the_page_has_at_least_ten_specs() -> None:
    files = [body for kind, body in _BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind == "yaml"]
    assert len(files) >= 10
    assert all(re.match(r"# [a-z0-9_]+\.yml\n", body) for body in files)


def test_the_picture_of_advice_shows_what_the_command_answers(
    tmp_path: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    section = next(each for each in _SECTIONS if "# resnet.yml" in each)
    render_section(section)
    words = ["advise", "resnet.yml", "--tiers", "dedicated", "--deadline", "2h", "--plot", "front.svg"]
    assert CliRunner().invoke(main, words).exit_code == 0
    drawn = Path("front.svg").read_text(encoding="utf-8")
    if update_golden:
        FRONT.write_text(drawn, encoding="utf-8")
    # Other versions of matplotlib write other paths; the words stay.
    assert _WORDS.findall(drawn) == _WORDS.findall(FRONT.read_text(encoding="utf-8"))

"""`man worldsize` and `man worldsize-check`: written from the commands, and installed with the package."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from worldsize.cli.main import COMMANDS, main

FOLDER = Path(__file__).parents[2] / "compiler" / "man"
NAMES = ["worldsize", *(f"worldsize-{name}" for name in COMMANDS)]


def render_page(name: str) -> str:
    man = pytest.importorskip("click_man.man", reason="click-man is missing: it is part of the extra `docs`")
    _, _, subcommand = name.partition("-")
    context = click.Context(main, info_name="worldsize", **main.context_settings)
    command: click.Command | None = main
    if subcommand:
        command = main.get_command(context, subcommand)
        context = click.Context(command, info_name=subcommand, parent=context)
    assert command is not None
    page = man.ManPage(name)
    page.version, page.date = "", ""  # neither changes what the page says
    page.short_help = command.get_short_help_str(limit=200).rstrip(".")
    page.description = command.help
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    page.options = [record for option in options if (record := option.get_help_record(context))]
    page.commands = [] if subcommand else list(COMMANDS.items())
    typed = name.replace("-", " ", 1)
    return f"{page}\n".replace(f".B {name}\n", f".B {typed}\n", 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_of_todays_commands(name: str, update_golden: bool) -> None:
    text, page = render_page(name), FOLDER / f"{name}.1"
    if update_golden:
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text


def test_each_page_is_of_a_command() -> None:
    assert {page.stem for page in FOLDER.iterdir()} == set(NAMES)

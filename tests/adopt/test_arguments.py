"""The command line of a script: what the user gives is found, and ours goes where the script reads it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import Flag, ScriptProfile
from worldsize.adopting.options.arguments import add_data, find_given, write_arguments
from worldsize.adopting.options.declared import read_options
from worldsize.adopting.project.inputs import choose_data_option
from worldsize.adopting.project.spec import find_reference
from worldsize.adopting.source.reading import read_script

SCRIPT = (Path(__file__).with_name("scripts") / "argparse_digits.py").read_text(encoding="utf-8")


def flag(option: str, role: str | None = None, **more: object) -> Flag:
    return Flag(option, role, "str", None, added=False, **more)  # type: ignore[arg-type]


DATA = flag("data", "data", required=True)
ARCH = flag("arch")
BATCH = flag("--batch-size", "batch_size", aliases=("-b", "--batch-size"))
VERBOSE = flag("--verbose", aliases=("-v",), words=0)
LAYERS = flag("--layers", words=None)
PROFILE = ScriptProfile("train.py", "torch", (DATA, ARCH, BATCH, VERBOSE, LAYERS))


@pytest.mark.parametrize(
    ("given", "data", "arch", "batch"),
    [
        ("d", "d", None, None),
        ("d mlp", "d", "mlp", None),
        ("-v d --batch-size 8 mlp", "d", "mlp", "8"),
        ("-b 8 d", "d", None, "8"),
        ("-b8 d", "d", None, "8"),
        ("--batch 8 d", "d", None, "8"),
        ("--batch-size=8 -- d mlp", "d", "mlp", "8"),
        ("--batch-size 4 --batch-size 8", None, None, "8"),
        ("d --layers 1 2", "d", None, None),
        ("--other x d", None, None, None),  # of an option that is not known
        ("-1 d", "-1", "d", None),
    ],
)
def test_what_is_given_is_found(given: str, data: str | None, arch: str | None, batch: str | None) -> None:
    words = shlex.split(given)
    found = [find_given(each, PROFILE.flags, words) for each in (DATA, ARCH, BATCH)]
    assert found == [data, arch, batch]


@pytest.mark.parametrize(
    ("given", "ours", "written"),
    [
        ("", {DATA: "D"}, "D"),
        ("d", {DATA: "D"}, "D"),
        ("d mlp -v", {DATA: "D"}, "D mlp -v"),
        ("-v d mlp", {DATA: "D", BATCH: "2"}, "D mlp --batch-size 2 -v"),
        ("d -b 8", {BATCH: "2"}, "d --batch-size 2"),
        ("--layers 1 2 -v -- d", {}, "d --layers 1 2 -v"),
        ("--other x -v", {DATA: "D"}, "D --other x -v"),
    ],
)
def test_ours_replaces_what_is_given(given: str, ours: dict[Flag, str], written: str) -> None:
    assert " ".join(write_arguments(PROFILE, shlex.split(given), list(ours.items()))) == written


@pytest.mark.parametrize(
    ("given", "written"),
    [("", "D"), ("mlp", "D mlp"), ("d mlp", "d mlp"), ("-v mlp -b 8", "D mlp -v -b 8")],
)
def test_the_data_takes_its_place_among_the_words(given: str, written: str) -> None:
    assert " ".join(add_data(PROFILE, shlex.split(given), Path("D"))) == written


def test_an_earlier_word_that_is_not_given_is_its_default() -> None:
    config = Flag("config", None, "str", "base", added=False)
    profile = ScriptProfile("train.py", "torch", (config, DATA))
    assert list(write_arguments(profile, [], [(DATA, "D")])) == ["base", "D"]


def test_words_that_fire_takes_in_order_are_written_with_their_names() -> None:
    first, second = flag("--data", "data", by_position=True), flag("--arch", by_position=True)
    profile = ScriptProfile("train.py", "torch", (first, second))
    words = add_data(profile, ["mlp"], Path("D"))
    assert find_given(first, profile.flags, words) == "D"
    assert list(write_arguments(profile, words, [(first, "X")])) == ["--data", "X", "--arch", "mlp"]


def test_the_only_option_that_needs_a_value_takes_the_data() -> None:
    name, other = flag("filename", required=True), flag("--user", required=True)
    assert choose_data_option(ScriptProfile("t.py", "torch", (name, ARCH)), []).flag("data") is not None
    assert choose_data_option(ScriptProfile("t.py", "torch", (name, other)), []).flag("data") is None
    chosen = choose_data_option(ScriptProfile("t.py", "torch", (name, other)), ["--user", "x"])
    assert [each.role for each in chosen.flags] == ["data", None]


@pytest.mark.parametrize(
    ("library", "declared", "options"),
    [
        (
            "argparse",
            (
                'p.add_argument("data")\np.add_argument("arch", nargs="?", default="mlp")\n'
                'p.add_argument("-v", "--verbose", action="store_true")\n'
            ),
            [("data", 1, True), ("arch", 1, False), ("--verbose", 0, False)],
        ),
        (
            "click",
            (
                '@click.argument("data")\n@click.option("--lr", "-l", required=True)\n'
                '@click.option("--fast", is_flag=True)\ndef main(data, lr, fast): pass\n'
            ),
            [("data", 1, True), ("--lr", 1, True), ("--fast", 0, False)],
        ),
        (
            "typer",
            "def main(data: str, lr: float = 0.1, fast: bool = False): pass\ntyper.run(main)\n",
            [("data", 1, True), ("--lr", 1, False), ("--fast", 0, False)],
        ),
    ],
)
def test_declared_options_say_how_many_words_they_take(
    library: str, declared: str, options: list[tuple[str, int, bool]], tmp_path: Path
) -> None:
    made = "p = argparse.ArgumentParser()\n" if library == "argparse" else ""
    path = tmp_path / "train.py"
    path.write_text(f"import {library}\n{made}{declared}", encoding="utf-8")
    found = [each.flag for each in read_options(read_script(path)[0]).declared]
    assert [(each.option, each.words, each.required) for each in found] == options


def test_the_batch_of_a_short_option_is_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("'--batch-size'", "'-b', '--batch-size'"), encoding="utf-8")
    reference = find_reference(adopt_script(path).profile, ["-b", "128"])
    assert reference is not None
    assert reference[0] == 128

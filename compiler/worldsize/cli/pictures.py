"""Pictures of commands, as SVG or as a page of HTML that holds it: the same data give the same bytes."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error
from worldsize.cli import common

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".html")
_STYLE: Any = {
    "svg.hashsalt": "worldsize",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Picture(Struct, frozen=True):
    """What draws a figure; ``size`` is its width and height in inches."""

    title: str  # of the page of HTML
    size: tuple[float, float]
    draw: Callable[[Figure], None]


def _check_suffix(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None and file.suffix not in SUFFIXES:
        raise click.UsageError(f"`--plot {file}` does not end with `.svg` or `.html`")
    return file


plot_option = click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_check_suffix,
    help="Also draw it, into a file of this name with `.svg` or `.html`.",
)


def save_picture(picture: Picture, file: Path) -> None:
    """Draw a picture into a file; exits if matplotlib is missing or the file cannot be written."""
    try:
        text = render_svg(picture)
    except ImportError:
        common.refuse(
            "pictures need `matplotlib`, which is not installed", "run `pip install 'worldsize[run]'`"
        )
    if file.suffix == ".html":
        head = '<!doctype html><html lang="en"><meta charset="utf-8">'
        head += f"<title>{html.escape(picture.title)}</title>"
        text = f"{head}<body>{text[text.index('<svg') :]}</body></html>\n"
    try:
        write_whole(file, text.encode())
    except OSError as error:
        common.refuse(f"`{file}` cannot be written: {describe_os_error(error)}")


def render_svg(picture: Picture) -> str:
    """The picture as the text of an SVG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=picture.size, layout="constrained")
        picture.draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())

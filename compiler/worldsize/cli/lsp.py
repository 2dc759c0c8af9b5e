"""`worldsize lsp`: the language server, for editors."""

from __future__ import annotations

import sys

import click

from worldsize.cli import common

EPILOG = """\b
An editor starts this command and talks to it over standard input and output. The settings for VS Code,
Neovim and Helix: https://github.com/worldsize/worldsize/blob/main/compiler/docs/editors.md

\b
Exit status: 0 after the requests `shutdown` and `exit`, 1 if the client ends without them.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--stdio", is_flag=True, expose_value=False, help="Accepted because editors add it: the only transport."
)
def command() -> None:
    """Serve diagnostics, hover, completion and fixes to an editor."""
    try:
        from worldsize.lsp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol", "cattrs", "attrs"):
            raise
        common.refuse(
            "`worldsize lsp` needs `pygls`, which is not installed", "run `pip install 'worldsize[lsp]'`"
        )
    if sys.stdin.isatty():
        common.say("note: this waits for an editor, which starts it; Ctrl-C ends it", err=True)
    raise SystemExit(serve())

"""Finds the secrets that scripts, Dockerfiles and commands assign to names: variables, arguments, flags.

The text is not parsed, so that Python, shells and settings files are read alike. Only a literal counts: what
has a `$`, a brace or a call in it is taken from somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.patterns import compile_later
from worldsize.documents.secrecy.assignments import Assignment
from worldsize.documents.secrecy.names import find_lines_with_hints, is_secret

# `password = "…"`, `password="…"`, `"password": "…"`, `environ["PASSWORD"] = "…"`, `password: str = "…"`.
_QUOTED = compile_later(
    r"""(?<![\w.-])(?P<name>[A-Za-z_][\w-]{1,79})["']?\]?(?:[ ]?:[ ]?str)?[ ]{0,8}[=:][ ]{0,8}"""
    r"""(?P<quote>["'])(?P<value>[^"'\s$`{}<>][^"'\n$`{}<>]{2,299})(?P=quote)"""
)
# `export PASSWORD=…` of a shell, `ENV PASSWORD=…` of a Dockerfile.
_BARE = compile_later(
    r"""(?:^|[\s;&|])(?P<name>[A-Za-z_]\w{1,79})=(?P<value>[^\s"'$`{}<>();&|=,\\][^\s"'$`{}<>();&|,\\]{2,299})"""
    r"(?=[\s;&|]|$)"
)
# `--password …` of a command.
_FLAG = compile_later(
    r"""(?:^|\s)--(?P<name>[A-Za-z][\w-]{1,79})(?:=|[ ]{1,4})(?P<quote>["']?)"""
    r"""(?P<value>[^\s"'$`{}<>();&|=\\-][^\s"'$`{}<>();&|\\]{2,299})(?P=quote)(?=\s|$)"""
)


_LONGEST = 4000  # characters of a line that is read; what is longer was generated
PATTERNS = {"python": (_QUOTED,), "shell": (_QUOTED, _BARE, _FLAG), "command": (_BARE, _FLAG)}


def find_code_assignments(text: str, language: str) -> Iterator[Assignment]:
    """Find the values under names of secrets, in no particular order.

    The ``language`` is ``python``, ``shell``, or ``command`` for a YAML file, whose keys are read as YAML.
    """
    for first, end in find_lines_with_hints(text):
        start = first
        for line in text[first:end].splitlines(keepends=True):
            for pattern in PATTERNS[language] if len(line) <= _LONGEST else ():
                for match in pattern.finditer(line):
                    if is_secret(match["name"]):
                        place = (start + match.start("value"), start + match.end("value"))
                        yield Assignment(match["name"], match["value"], *place)
            start += len(line)

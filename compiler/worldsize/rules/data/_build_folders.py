"""The build folder of an environment: it has no Dockerfile, or lacks what the Dockerfile copies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of, is_file, list_names, local_path
from worldsize.base.problem import Problem, Related
from worldsize.base.source import Source
from worldsize.base.suggest import closest
from worldsize.documents.yaml.nodes import Mapping, Scalar
from worldsize.rules.context import Context

# `COPY requirements.txt setup.py /app/`: what lies on one line, and is neither a list nor of another stage.
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(?P<words>[^\n\[]*[^\n\\])$", re.MULTILINE | re.IGNORECASE)
_FLAG = re.compile(r"--(?!from\b)[a-z]+(?:=\S*)?")
_PLAIN = re.compile(r"[\w.-][\w./-]*", re.ASCII)
_LONGEST = 1000  # characters of an instruction that is read


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    node = component.environment.node if component.environment else None
    build = node.get("build") if isinstance(node, Mapping) else None
    path = build.get("path") if isinstance(build, Mapping) else None
    if not isinstance(build, Mapping) or not isinstance(path, Scalar) or not isinstance(path.value, str):
        return
    folder = local_path(path.value, folder_of(path))
    if folder is None or not context.exists(folder):
        return
    if is_file(folder):
        message = f"`{path.text}` is a file, but `build.path` names the folder of the Dockerfile"
        help_ = (
            f"write `path: {folder_name}`"
            if (folder_name := path.text.rpartition("/")[0])
            else "write `path: .`"
        )
        yield Problem("dockerfile-missing", path.span, message, help_)
        return
    named = build.get("dockerfile_path")
    name = named.value if isinstance(named, Scalar) and isinstance(named.value, str) else "Dockerfile"
    place = named if isinstance(named, Scalar) else path
    if not context.exists(folder / name):
        message = f"`{path.text}` has no `{name}` to build the image from"
        help_ = "add it, or write its path in the folder as `dockerfile_path`"
        files = [name for name in list_names(folder) if is_file(folder / name)]
        near = closest(name, files) or next((e for e in files if e.lower().startswith("dockerfile")), None)
        if near is not None:
            help_ = f"write `dockerfile_path: {near}`, or rename `{near}`"
        yield Problem("dockerfile-missing", place.span, message, help_)
    source = context.text(folder / name)
    if source is not None:
        yield from _check_copies(
            context, folder, path.text, source, (Related(place.span, "the build is here"),)
        )


def _check_copies(
    context: Context, folder: Path, shown: str, source: Source, related: tuple[Related, ...]
) -> Iterator[Problem]:
    """Report files that a Dockerfile copies by plain names and that the folder does not have."""
    for match in _COPY.finditer(source.text):
        words = [(word[0], word.start()) for word in re.finditer(r"\S+", match["words"][:_LONGEST])]
        while words and _FLAG.fullmatch(words[0][0]):
            words = words[1:]
        if words and words[0][0].startswith(("--", "<<")):
            continue  # of another stage, or written in place
        for name, start in words[:-1]:
            if _PLAIN.fullmatch(name) and ".." not in name.split("/") and not context.exists(folder / name):
                at = match.start("words") + start
                message = f"the Dockerfile copies `{name}`, which `{shown}` does not have"
                help_ = "add it there: Azure ML uploads only the build folder"
                yield Problem("copied-file-missing", source.span(at, at + len(name)), message, help_, related)

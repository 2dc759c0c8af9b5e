"""The files of an environment: conda files and build folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.environment import list_packages
from worldsize.azureml.model import Component
from worldsize.azureml.references import classify, folder_of, is_file, is_folder, list_names, local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.source import Source
from worldsize.base.suggest import closest
from worldsize.documents.yaml import Document
from worldsize.documents.yaml.nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    find_node,
    list_entries,
    list_items,
)

# `COPY requirements.txt setup.py /app/`: what lies on one line, and is neither a list nor of another stage.
_COPY = re.compile(r"^[ \t]*(?:COPY|ADD)[ \t]+(?P<words>[^\n\[]*[^\n\\])$", re.MULTILINE | re.IGNORECASE)
_FLAG = re.compile(r"--(?!from\b)[a-z]+(?:=\S*)?")
_PLAIN = re.compile(r"[\w.-][\w./-]*", re.ASCII)
_LONGEST = 1000  # characters of an instruction that is read


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    node = component.environment.node if component.environment else None
    if isinstance(node, Mapping):
        yield from _check_build_folder(context, node.get("build"))
        yield from _check_conda_file(context, node.get("conda_file"))


def _check_build_folder(context: Tree, build: Node | None) -> Iterator[Problem]:
    path, named = find_node(build, "path"), find_node(build, "dockerfile_path")
    if not isinstance(path, Scalar) or not isinstance(path.value, str):
        return
    folder = local_path(path.value, folder_of(path))
    if folder is None or not context.exists(folder):
        return
    if is_file(folder):
        message = f"`{path.text}` is a file, but `build.path` names the folder of the Dockerfile"
        help_ = f"write `path: {path.text.rpartition('/')[0] or '.'}`"
        yield Problem("dockerfile-missing", path.span, message, help_)
        return
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
    context: Tree, folder: Path, shown: str, source: Source, related: tuple[Related, ...]
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


# What a line of pip reads from the disk: requirements, constraints, a package as a folder.
_READS = re.compile(
    r"(?:-[rce]\s*|--(?:requirement|constraint|editable)[\s=]+)(?P<file>[^\s$/]\S*)|(?P<folder>\.{1,2}(?:/\S*)?)"
)


def _check_conda_file(context: Tree, named: Node | None) -> Iterator[Problem]:
    if isinstance(named, Mapping):
        yield from _check_lines(named, ())
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        return
    path = local_path(named.value, folder_of(named))
    if path is None or not context.inside(path):
        return
    if is_folder(path):
        message = f"`{named.text}` is a folder, not a conda file"
        yield Problem("conda-file-invalid", named.span, message, "write the path of the file")
    elif is_file(path):
        yield from _check_file(named, context.document(path))


def _check_file(named: Scalar, document: Document) -> Iterator[Problem]:
    of_environment = (Related(named.span, "the environment names the conda file here"),)
    for fault in document.problems[:1]:
        related = (Related(fault.span, fault.message),)
        message = f"`{named.text}`, line {fault.span.line}: {fault.message}"[:200]
        yield Problem(
            "conda-file-invalid", named.span, message, fault.help or "correct the file", related=related
        )
    root = document.root
    wanted = find_node(root, "dependencies")
    if root is not None and wanted is None:
        near = closest("dependencies", list(root)) if isinstance(root, Mapping) else None
        key = root.key(near) if isinstance(root, Mapping) and near is not None else None
        help_ = f"write `dependencies` instead of `{near}`" if near else "list packages under `dependencies:`"
        message = f"`{named.text}` has no `dependencies`, so it installs nothing"
        if key is None:
            yield Problem("conda-file-invalid", named.span, message, help_)
        else:
            yield Problem("conda-file-invalid", key.span, message, help_, of_environment)
    elif wanted is not None and not isinstance(wanted, Sequence):
        message = f"`{named.text}` has `dependencies` that are not a list"
        help_ = "write one package per line, each after a dash"
        yield Problem("conda-file-invalid", wanted.span, message, help_, of_environment)
    elif root is not None:
        yield from _check_packages(root, of_environment)
        yield from _check_lines(root, of_environment)


def _check_packages(root: Node, related: tuple[Related, ...]) -> Iterator[Problem]:
    """Report a package that is a mapping, such as `python: 3.10`: only `pip` has a list of its own."""
    for item in list_items(find_node(root, "dependencies")):
        for key, value in list_entries(item):
            if key.text != "pip":
                message = f"`{key.text}:` is a mapping, and conda takes a package as one text"
                version = f"{key.text}={value.text}" if isinstance(value, Scalar) and value.text else ""
                help_ = f"write `{version or 'NAME=VERSION'}`, or `pip:` before a list of pip's packages"
                yield Problem("conda-file-invalid", key.span, message, help_, related)


# A requirement with the operator of conda: `pandas=2.3.3`, `torch[extra] =2.7`.
_OF_CONDA = re.compile(r"[\w.-]{1,200}(?:\[[\w, .-]{0,200}\])?[ ]{0,8}(?P<sign>=)(?![=])", re.ASCII)


def _check_lines(root: Node, related: tuple[Related, ...]) -> Iterator[Problem]:
    """Report pip lines that pip refuses, or that read a file: it is not there when the image is built."""
    for line, by_pip in list_packages(root):
        if by_pip and not line.text.startswith("-") and (match := _OF_CONDA.match(line.text)) is not None:
            message = f"`{line.text}` is how conda writes a version: pip refuses it"
            written = f"{line.text[: match.start('sign')]}={line.text[match.start('sign') :]}"
            fix = Fix(line.subspan(match.start("sign"), match.end("sign")), "==")
            yield Problem("conda-file-invalid", line.span, message, f"write `{written}`", related, fix)
        match = _READS.match(line.text) if by_pip else None
        name = (match["file"] or match["folder"]) if match is not None else ""
        if name and classify(name) == "local":
            message = f"`{name}` is not there when the image is built: Azure ML sends only the conda file"
            help_ = "list the packages here, or build from a Dockerfile, with `build: {path: …}`"
            yield Problem("conda-line-reads-file", line.span, message, help_, related=related)

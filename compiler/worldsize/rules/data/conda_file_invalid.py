"""The conda file of an environment is not valid, or needs files that Azure ML does not send with it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import classify, folder_of, is_file, is_folder, local_path
from worldsize.base.problem import Problem, Related
from worldsize.base.suggest import closest
from worldsize.documents.yaml import Document
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.rules.context import Context

# What a line of pip reads from the disk: requirements, constraints, a package as a folder.
_READS = re.compile(
    r"(?:-[rce]\s*|--(?:requirement|constraint|editable)[\s=]+)(?P<file>[^\s$/]\S*)|(?P<folder>\.{1,2}(?:/\S*)?)"
)


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    node = component.environment.node if component.environment else None
    named = node.get("conda_file") if isinstance(node, Mapping) else None
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
    wanted = root.get("dependencies") if isinstance(root, Mapping) else None
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
    listed = root.get("dependencies") if isinstance(root, Mapping) else None
    for item in listed.items if isinstance(listed, Sequence) else ():
        for key, value in item.items() if isinstance(item, Mapping) else ():
            if key.text != "pip":
                message = f"`{key.text}:` is a mapping, and conda takes a package as one text"
                version = f"{key.text}={value.text}" if isinstance(value, Scalar) and value.text else ""
                help_ = f"write `{version or 'NAME=VERSION'}`, or `pip:` before a list of pip's packages"
                yield Problem("conda-file-invalid", key.span, message, help_, related)


def _check_lines(root: Node, related: tuple[Related, ...]) -> Iterator[Problem]:
    """Report pip lines that read a file: it is not there when the image is built."""
    listed = root.get("dependencies") if isinstance(root, Mapping) else None
    for item in listed.items if isinstance(listed, Sequence) else ():
        lines = item.get("pip") if isinstance(item, Mapping) else None
        for line in lines.items if isinstance(lines, Sequence) else ():
            match = _READS.match(line.text) if isinstance(line, Scalar) else None
            name = (match["file"] or match["folder"]) if match is not None else ""
            if name and classify(name) == "local":
                message = f"`{name}` is not there when the image is built: Azure ML sends only the conda file"
                help_ = "list the packages here, or build from a Dockerfile, with `build: {path: …}`"
                yield Problem("conda-line-reads-file", line.span, message, help_, related=related)

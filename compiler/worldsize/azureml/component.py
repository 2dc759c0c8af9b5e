"""Reads component YAML, from files or inline, without changing values."""

from __future__ import annotations

import re
from pathlib import Path

from worldsize.azureml import fields, graph
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component, Field, Interface, Port
from worldsize.azureml.references import closest_path, is_file, is_folder, list_names, local_path
from worldsize.base import untrusted
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar

DEEPEST = 50  # pipeline components inside each other
_NAME_AND_VERSION = re.compile(r"\w[\w.-]*(?::[\w.-]+|@\w+)")
_FIELDS = (
    "name", "version", "command", "code", "distribution", "resources", "additional_includes",
    "is_deterministic", "display_name", "description", "tags",
)  # fmt: skip
_FLOW = frozenset({"flow", "nodes"})  # what the file of a prompt flow has, which stands in for a component


def read_component(path: str | Path, files: Files | None = None) -> tuple[Component | None, list[Problem]]:
    """Read a component file, and the component files that a pipeline component refers to.

    Returns:
        The component, None if the file is not a mapping or cannot be read, and the new
        problems. Wrong types are kept, so that rules can report them.
    """
    files = files or Files()
    before = len(files.problems)
    component = load_component(Path(path), files)
    return component, files.problems[before:]


def load_component(path: Path, files: Files) -> Component | None:
    """As :func:`read_component`; problems are added to ``files``."""
    key = files.real(path)
    if key in files.components:
        return files.components[key]
    document = files.document(path)
    if not isinstance(document.root, Mapping):
        if document.root is not None:
            message = f"`{path.name}` is not a mapping, so it is not a component"
            span = document.root.span
            files.problems.append(
                Problem("component-not-mapping", span, message, "start with `type: command`")
            )
        files.components[key] = None
        return None
    files.components[key] = None  # the answer for a component that contains itself
    files.reading.append(key)
    files.components[key] = read_component_node(document.root, path, path.parent, files)
    files.reading.pop()
    return files.components[key]


def read_component_node(node: Mapping, path: Path | None, folder: Path, files: Files) -> Component:
    """A component from its mapping, ``path`` being None for an inline one."""
    kind = "flow" if _FLOW & set(node) else fields.read_text(node, "type") or "command"
    interface = Interface(read_ports(node.get("inputs")), read_ports(node.get("outputs")))
    inner = None
    if kind == "pipeline":
        inner = graph.read_graph(node, path, folder, files, resolve_component, interface=interface)
    return Component(
        path=path,
        type=kind,
        inputs=interface.inputs,
        outputs=interface.outputs,
        environment=fields.read_environment(node),
        graph=inner,
        raw=node,
        folder=folder,
        **fields.read_fields(node, *_FIELDS),
    )


def resolve_component(
    reference: Node, folder: Path, files: Files
) -> tuple[Component | None, Field[str] | None]:
    """Read what ``component:`` of a step (``trial:`` of a sweep) refers to, if it can be read here.

    The text of the reference is returned too, if it is text.
    """
    if isinstance(reference, Mapping):
        return read_component_node(reference, None, folder, files), None
    if not isinstance(reference, Scalar) or not isinstance(reference.value, str):
        return None, fields.read_node(reference)
    field = fields.read_node(reference)
    path = local_path(reference.value, folder)
    if path is None:
        stand_in = files.elsewhere(reference.value)
        if stand_in is None or not is_file(stand_in):
            return None, field
        path = stand_in
    refused = _report_unreadable(reference, path, files)
    if refused is not None:
        files.problems.append(refused)
        return None, field
    return load_component(path, files), field


def _report_unreadable(reference: Scalar, path: Path, files: Files) -> Problem | None:
    """The problem that prevents or forbids reading a local component file."""
    if not is_file(path):
        return _report_missing(reference, path)
    if not files.readable(path):
        return report_outside(reference.text, reference.span)
    if files.real(path) in files.reading:
        message = f"component `{shorten(reference.text)}` contains itself"
        help_ = "a pipeline component cannot be one of its own steps"
        return Problem("component-recursive", reference.span, message, help_)
    if len(files.reading) >= DEEPEST:
        message = f"component `{shorten(reference.text)}` lies {DEEPEST + 1} pipeline components deep"
        return Problem("component-recursive", reference.span, message, f"nest {DEEPEST} at most")
    return None


def report_outside(text: str, span: Span) -> Problem:
    """Report a reference to a file outside the checked tree, which is not read."""
    message = f"`{shorten(text)}` is outside the checked tree, so it was not read"
    help_ = "check the folder that contains both, or list its folder under `allow:` in `worldsize.yml`"
    return Problem("reference-outside", span, message, help_)


def read_ports(node: yaml.Node | None) -> dict[str, Port]:
    """Read the ports under ``inputs:`` or ``outputs:`` of a component, whatever their shape."""
    if not isinstance(node, Mapping):
        return {}
    return {key.text: _read_port(key, value) for key, value in node.items()}


def _read_port(key: Scalar, node: Node) -> Port:
    if not isinstance(node, Mapping):
        return Port(key.text, "uri_folder", key.span)
    optional = node.get("optional")
    return Port(
        name=key.text,
        type=fields.read_text(node, "type") or "uri_folder",
        span=key.span,
        description=fields.read_text(node, "description"),
        optional=isinstance(optional, Scalar) and optional.value is True,
        **fields.read_fields(node, "default", "min", "max", "enum", "mode"),
    )


def _report_missing(reference: Scalar, path: Path) -> Problem:
    """Report a reference to a missing file, with the component files that exist in its folder."""
    message = f"component file `{shorten(reference.text)}` does not exist"
    if (fault := untrusted.find_fault(path)) is not None:
        message = f"component file `{shorten(reference.text)}` cannot be read: {fault}"
        return Problem("component-missing", reference.span, message, "write the path of its YAML file")
    names = [name for name in list_names(path.parent) if name.endswith((".yml", ".yaml"))]
    names = [name for name in names if path.parent / name != Path(reference.source.path)]
    near = closest_path(reference.text, path, reference.source.path)
    if _NAME_AND_VERSION.fullmatch(reference.text):
        help_ = f"for a registered component write `azureml:{shorten(reference.text)}`"
    elif near is not None:
        help_ = f"did you mean `{shorten(near)}`?"
    elif not is_folder(path.parent):
        help_ = f"there is no folder `{shorten(str(path.parent))}`; the path is relative to this file"
    else:
        listed = ", ".join(f"`{name}`" for name in names[:6])
        help_ = f"the folder has {listed}" if listed else "the folder has no YAML file; write the path of one"
    return Problem("component-missing", reference.span, message, help_)

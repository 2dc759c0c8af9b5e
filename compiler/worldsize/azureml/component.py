"""Reading component YAML: Azure's own files, ours and inline ones, kept as they were written."""

from __future__ import annotations

from pathlib import Path

from worldsize import yaml
from worldsize.azureml import fields, graph
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component, Field, Interface, Port
from worldsize.azureml.references import is_file, local_path, names_in, shown
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.yaml.nodes import Mapping, Node, Scalar

DEEPEST = 50  # pipeline components inside each other
FLOW = frozenset({"flow", "nodes"})  # what the file of a prompt flow has, which stands in for a component


def read(path: str | Path, files: Files | None = None) -> tuple[Component | None, list[Problem]]:
    """Read a component file, and the component files that a pipeline component refers to.

    Args:
        path: The file.
        files: What has been read before; a fresh one where not given.

    Returns:
        The component, None where the file is no mapping or cannot be read, and the problems that
        this call met. Wrong types are kept for rules to judge.
    """
    files = files or Files()
    before = len(files.problems)
    component = load(Path(path), files)
    return component, files.problems[before:]


def load(path: Path, files: Files) -> Component | None:
    """As :func:`read`; problems go to ``files``."""
    key = files.real(path)
    if key in files.components:
        return files.components[key]
    document = files.document(path)
    if not isinstance(document.root, Mapping):
        if document.root is not None:
            message = f"`{path.name}` holds no mapping, so it is no component"
            span = document.root.span
            files.problems.append(
                Problem("component-not-mapping", span, message, "start with `type: command`")
            )
        files.components[key] = None
        return None
    files.components[key] = None  # what a component that contains itself sees
    files.reading.append(key)
    files.components[key] = from_node(document.root, path, path.parent, files)
    files.reading.pop()
    return files.components[key]


def from_node(node: Mapping, path: Path | None, folder: Path, files: Files) -> Component:
    """A component from its mapping, ``path`` being None for an inline one."""
    kind = fields.text(node, "type") or "command"
    interface = Interface(ports(node.get("inputs")), ports(node.get("outputs")))
    inner = None
    if kind == "pipeline":
        inner = graph.from_node(node, path, folder, files, resolve, interface=interface)
    return Component(
        path=path,
        type=kind,
        name=fields.get(node, "name"),
        version=fields.get(node, "version"),
        inputs=interface.inputs,
        outputs=interface.outputs,
        command=fields.get(node, "command"),
        code=fields.get(node, "code"),
        environment=fields.get(node, "environment"),
        distribution=fields.get(node, "distribution"),
        resources=fields.get(node, "resources"),
        additional_includes=fields.get(node, "additional_includes"),
        is_deterministic=fields.get(node, "is_deterministic"),
        display_name=fields.get(node, "display_name"),
        description=fields.get(node, "description"),
        tags=fields.get(node, "tags"),
        graph=inner,
        raw=node,
    )


def is_flow(component: Component) -> bool:
    """Whether a component's file is a prompt flow's."""
    return isinstance(component.raw, Mapping) and bool(FLOW & set(component.raw))


def resolve(reference: Node, folder: Path, files: Files) -> tuple[Component | None, Field[str] | None]:
    """What ``component:`` of a step holds.

    Args:
        reference: The node under ``component:`` (``trial:`` of a sweep).
        folder: The folder of the file it stands in.
        files: The files read so far.

    Returns:
        The component where it can be read here, and the text of the reference where it is text.
    """
    if isinstance(reference, Mapping):
        return from_node(reference, None, folder, files), None
    if not isinstance(reference, Scalar) or not isinstance(reference.value, str):
        return None, fields.of(reference)
    field = fields.of(reference)
    path = local_path(reference.value, folder)
    if path is None:
        stand_in = files.elsewhere(reference.value)
        if stand_in is None or not is_file(stand_in):
            return None, field
        path = stand_in
    refused = _refused(reference, path, files)
    if refused is not None:
        files.problems.append(refused)
        return None, field
    return load(path, files), field


def _refused(reference: Scalar, path: Path, files: Files) -> Problem | None:
    """Why a local component file cannot be read, or must not be."""
    if not is_file(path):
        return _missing(reference, path)
    if not files.readable(path):
        return outside(reference.text, reference.span)
    if path.resolve() in files.reading:
        message = f"component `{shown(reference.text)}` contains itself"
        help_ = "a pipeline component cannot be one of its own steps"
        return Problem("component-recursive", reference.span, message, help_)
    if len(files.reading) >= DEEPEST:
        message = f"component `{shown(reference.text)}` lies {DEEPEST + 1} pipeline components deep"
        return Problem("component-recursive", reference.span, message, f"nest {DEEPEST} at most")
    return None


def outside(text: str, span: Span) -> Problem:
    """A reference to a file that lies outside the checked tree, and so is not read."""
    message = f"`{shown(text)}` lies outside the checked tree, so it was not read"
    help_ = "check the folder that holds both, or list its folder under `allow:` in `worldsize.yml`"
    return Problem("reference-outside", span, message, help_)


def ports(node: yaml.Node | None) -> dict[str, Port]:
    """The ports under ``inputs:`` or ``outputs:`` of a component; entries of another shape too."""
    if not isinstance(node, Mapping):
        return {}
    return {key.text: _port(key, value) for key, value in node.items()}


def _port(key: Scalar, node: Node) -> Port:
    if not isinstance(node, Mapping):
        return Port(key.text, "uri_folder", key.span)
    optional = node.get("optional")
    return Port(
        name=key.text,
        type=fields.text(node, "type") or "uri_folder",
        span=key.span,
        description=fields.text(node, "description"),
        optional=isinstance(optional, Scalar) and optional.value is True,
        default=fields.get(node, "default"),
        min=fields.get(node, "min"),
        max=fields.get(node, "max"),
        enum=fields.get(node, "enum"),
        mode=fields.get(node, "mode"),
    )


def _missing(reference: Scalar, path: Path) -> Problem:
    """A reference to a file that is not there, with the likeliest one beside it."""
    message = f"component file `{shown(reference.text)}` does not exist"
    names = [name for name in names_in(path.parent) if name.endswith((".yml", ".yaml"))]
    beside = ", ".join(f"`{name}`" for name in names[:6])
    if ":" in reference.text:
        help_ = f"for a registered component write `azureml:{shown(reference.text)}`"
    else:
        help_ = f"files in that folder: {beside}" if beside else "the path is relative to this file"
    return Problem("component-missing", reference.span, message, help_)

"""What a mapping lacks, and what it has too much of, judged by its keys together."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.shape.catalog import Shape
from worldsize.azureml.shape.place import Place
from worldsize.azureml.shape.values import fits
from worldsize.base.problem import Fix, Problem
from worldsize.base.suggest import closest, surely
from worldsize.yaml.nodes import Scalar

# What a step itself says of what it runs, where it names no component.
_OR_COMPONENT = {
    "command": "the command to run",
    "entry": "the script to run, such as `entry: {file: main.py}`",
}


def selector(place: Place, discriminator: Shape) -> Problem:
    """The key is not there by which a union is told apart."""
    wanted = discriminator["key"]
    words = ", ".join(f"`{word}`" for word in discriminator["mapping"])
    typo = next((word for word in place.node if closest(word, [wanted]) is not None), None)
    key = place.node.key(typo) if typo is not None else None
    if key is not None:
        fix = Fix(key.span, wanted) if surely(key.text, [wanted]) else None
        message = f"{place.title} has no key `{key.text}`"
        return Problem("aml-unknown-key", key.span, message, f"did you mean `{wanted}`?", fix=fix)
    advice = f"write `{wanted}:` with one of {words}"
    return Problem("aml-missing-key", place.anchor, f"{place.title} needs `{wanted}`", advice)


def entries(place: Place) -> Problem:
    """A mapping of names that has none."""
    message = f"{place.title} is empty, so there is nothing to run"
    return Problem("aml-missing-key", place.anchor, message, f"add at least one entry under {place.title}")


def required(place: Place, meant: set[str], *, registered: bool, blamed: bool) -> Iterator[Problem]:
    """Every problem of ``place`` that its keys make together.

    Args:
        place: The mapping.
        meant: Keys that misplaced or mistyped ones stand for; they are not missing.
        registered: Whether a component's own name matters.
        blamed: Whether one of the keys is at fault already, so that a lack may follow from it.
    """
    node, shape = place.node, place.shape
    named = "name" in shape.get("x-registered-only", ())
    absent = [name for name in shape.get("required", ()) if name not in node and name not in meant]
    own = next((name for name in absent if name in _OR_COMPONENT), None)
    if own is not None and _is_step(place):
        absent = [own]  # a step without anything to run: what else it lacks depends on that
    for name in absent:
        if not (named and name == "name"):
            yield _missing(place, name)
    for name, needed in shape.get("dependentRequired", {}).items():
        found = node.key(name)
        partner = next((other for other in needed if other not in node), None)
        if found is not None and partner is not None:
            message = f"`{name}` needs `{partner}` beside it"
            yield Problem("aml-missing-key", found.span, message, f"add `{partner}:`")
    yield from _exclusive(place, blamed=blamed)
    if named and registered:
        yield from _component_name(place)


def _is_step(place: Place) -> bool:
    """Whether the mapping could have named a component instead of giving a command."""
    return any("component" in sibling.shape.get("properties", {}) for sibling in place.siblings)


def _missing(place: Place, name: str) -> Problem:
    properties = place.shape["properties"]
    if name in _OR_COMPONENT and _is_step(place):
        message = f"{place.title} needs `{name}` or `component`"
        advice = f"add {_OR_COMPONENT[name]}, or the component to use"
        return Problem("aml-missing-key", place.anchor, message, advice)
    if name == "type" and place.parent is None:
        word = properties["type"]["enum"][0]
        message = f"the file has no `type`, so Azure ML takes it for a command, not a {word}"
        return Problem("aml-missing-key", place.anchor, message, f"add `type: {word}`")
    advice = f"add `{name}:`"
    description = properties.get(name, {}).get("description")
    if description and len(description) <= 120 and description.lower().rstrip(".") != name:
        advice += f" ({description[0].lower()}{description[1:].rstrip('.')})"
    return Problem("aml-missing-key", place.anchor, f"{place.title} needs `{name}`", advice)


def _exclusive(place: Place, *, blamed: bool) -> Iterator[Problem]:
    node, shape = place.node, place.shape
    one_of = shape.get("x-one-of-keys", ())
    for group in (*shape.get("x-exclusive-keys", ()), one_of):
        present = [key for key, _ in node.items() if key.text in group]
        if len(present) > 1:
            first, second = present[0].text, present[1]
            message = f"`{first}` and `{second.text}` exclude each other in {place.title}"
            yield Problem("aml-exclusive-keys", second.span, message, "keep one of the two")
    if one_of and not blamed and not any(name in node for name in one_of):
        conda = node.key("conda_file")
        if conda is not None:
            message = f"`conda_file` needs `{one_of[0]}` beside it"
            advice = "add `image:` with the base image into which the packages go"
            yield Problem("aml-missing-key", conda.span, message, advice)
            return
        message = f"{place.title} needs `{one_of[0]}` or `{one_of[1]}`"
        advice = "add `image:` with a base image, or `build:` with the path of a Docker context"
        yield Problem("aml-missing-key", place.anchor, message, advice)


def _component_name(place: Place) -> Iterator[Problem]:
    """A component that is to be registered has a name that Azure ML takes."""
    name = place.node.get("name")
    if name is None:
        message = "the component has no `name`, which it needs to be registered"
        yield Problem("aml-component-name", place.anchor, message, "add `name:`")
    elif not isinstance(name, Scalar) or not fits(name.value, place.shape["properties"]["name"]):
        given = f"`{name.text[:60]}`" if isinstance(name, Scalar) else "what stands under `name`"
        message = f"{given} is not a name under which a component can be registered"
        advice = "use lower-case letters, digits and `_`, and start with a letter"
        yield Problem("aml-component-name", name.span, message, advice)

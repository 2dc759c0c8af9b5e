"""Compares a document with the shape of its kind, and reports each cause once.

Of a union only the alternative is checked that the file selects, by ``type`` or by a key that only one
alternative has. Work is linear in the file: a mapping that aliases share is checked once per shape.
"""

from __future__ import annotations

from worldsize.azureml.shape import blame, keys
from worldsize.azureml.shape.catalog import MappingContext, Sibling, fits_shape, load_catalog
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.documents.shape import Schema, Shape, fold_case
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence


def check_shape(root: Node, kind: str) -> list[Problem]:
    """Report everything in a document that Azure ML refuses or drops silently, by its structure alone.

    The problems of a mapping's values come before those of the mapping as a whole.
    """
    walker = _Walker(load_catalog(kind))
    walker.value(root, walker.catalog.root, None, None)
    if kind == "parallel-job":
        span = root.entries[0][0].span if isinstance(root, Mapping) and root.entries else root.span
        message = "a job of type `parallel` cannot run on its own"
        problem = Problem("aml-not-allowed", span, message, "make it a step under the `jobs:` of a pipeline")
        walker.problems.append(problem)
    return walker.problems


def check_member(root: Mapping, kind: str, name: str) -> list[Problem]:
    """As :func:`check_shape`, for the value of one key, in a file whose other keys do not matter."""
    walker, key, value = _Walker(load_catalog(kind)), root.key(name), root.get(name)
    if key is not None and value is not None:
        walker.value(value, walker.catalog.root["properties"][name], key, None)
    return walker.problems


# Names of what a job runs. Empty text passes the client, and the service refuses it.
_NEVER_EMPTY = frozenset(
    {"image", "command", "component", "trial", "environment", "conda_file", "entry_script"}
)
_SIBLINGS: dict[int, tuple[Sibling, ...]] = {}  # of each union met so far, by its identity
_Token = tuple[int, str, str, "str | None"]


class _Walker:
    def __init__(self, shapes: Schema) -> None:
        self.catalog = shapes
        self.problems: list[Problem] = []
        self._seen: set[tuple[int, int]] = set()
        self._sound: set[_Token] = set()

    def value(self, node: Node, shape: Shape, key: Scalar | None, parent: MappingContext | None) -> None:
        """Check ``node``, the value of ``key``."""
        if len(self.problems) >= limits.FOUND:
            return
        parts = self.catalog.list_alternatives(shape)
        if not parts[0] or "readOnly" in parts[0]:
            self._unread(node, parts[0], key, parent)
            return
        if isinstance(node, Scalar):
            token = (id(shape), node.text, node.style, node.tag)
            if token not in self._sound:  # generated pipelines repeat it thousands of times
                self._scalar(node, parts, key, token)
            return
        mark = (id(node), id(shape))
        if mark in self._seen:
            return
        self._seen.add(mark)
        for part in parts:
            if isinstance(node, Sequence) and part.get("type") == "array":
                for item in node.items:
                    self.value(item, part["items"], key, parent)
                return
            if isinstance(node, Mapping) and ("oneOf" in part or part.get("type") == "object"):
                self._choose(node, part, key, parent)
                return
        self._not_accepted(node, parts, key)

    def _unread(self, node: Node, part: Shape, key: Scalar | None, parent: MappingContext | None) -> None:
        """Report an empty value of a read-only key; any other value is allowed."""
        empty = isinstance(node, Scalar) and node.value is None
        closed = parent is not None and parent.shape.get("additionalProperties") is False
        if part and empty and closed and key is not None:
            self.problems.append(blame.report_empty(key.text, key.span))

    def _not_accepted(self, node: Node, parts: list[Shape], key: Scalar | None) -> None:
        if not any(_accepts_anything(part) for part in parts):
            self.problems.append(
                blame.report_wrong_value(node, key.text if key is not None else "the file", parts)
            )

    def _scalar(self, node: Scalar, parts: list[Shape], key: Scalar | None, token: _Token) -> None:
        value = node.value
        for part in parts:
            if "oneOf" in part or part.get("type") in ("object", "array"):
                continue
            if value is None:
                if "null" in part.get("type", ()) or not part:
                    return
            elif fits_shape(value, part):
                problem = blame.report_bad_uri(node)
                if problem is not None:
                    self.problems.append(problem)
                elif not self._version(node, part):
                    self._sound.add(token)
                return
        if value is None:
            name = key.text if key is not None else "the file"
            self.problems.append(blame.report_empty(name, key.span if key is not None else node.span))
        else:
            self._not_accepted(node, parts, key)

    def _version(self, node: Scalar, part: Shape) -> bool:
        """Report a version that YAML reads differently than it is written."""
        if part.get("x-kind") != "version" or str(node.value) == node.text:
            return False
        message = f"version `{node.text}` is read as `{node.value!s}`"
        self.problems.append(blame.report_unquoted("aml-version-read-as-number", node, message))
        return True

    def _choose(self, node: Mapping, shape: Shape, key: Scalar | None, parent: MappingContext | None) -> None:
        """Follow ``type`` and telling keys down to one mapping shape."""
        name = key.text if key is not None else None
        siblings: tuple[Sibling, ...] = ()
        selected: str | None = None
        while "oneOf" in shape:
            discriminator = shape["x-discriminator"]
            if "key" in discriminator:
                siblings = self._siblings(shape)
            choice = self._branch(MappingContext(node, {}, name, key, parent), discriminator)
            if choice is None:
                return
            position, word = choice
            selected = word or selected
            shape = self.catalog.resolve(shape["oneOf"][position])
        if selected is None and siblings:
            allowed = shape.get("properties", {}).get("type", {}).get("enum", ())
            selected = allowed[0] if len(allowed) == 1 else None
        self._mapping(MappingContext(node, shape, name, key, parent, selected, siblings))

    def _siblings(self, shape: Shape) -> tuple[Sibling, ...]:
        if id(shape) not in _SIBLINGS:
            _SIBLINGS[id(shape)] = tuple(
                Sibling(word, branch)
                for word, position in shape["x-discriminator"]["mapping"].items()
                for branch in self.catalog.list_mappings(shape["oneOf"][position])
            )
        return _SIBLINGS[id(shape)]

    def _branch(self, tree: MappingContext, discriminator: Shape) -> tuple[int, str | None] | None:
        """The alternative of a mapping, and the word that selects it; None if this was reported."""
        node = tree.node
        key = discriminator.get("key")
        chosen = node.get(key) if key is not None else None
        if chosen is not None:
            return self._by_word(chosen, discriminator, tree)
        for name, position in discriminator.get("present", {}).items():
            if name in node:
                return position, None
        absent = discriminator.get("absent")
        if absent is None:
            self.problems.append(keys.report_selector(tree, discriminator))
            return None
        words = (word for word, position in discriminator.get("mapping", {}).items() if position == absent)
        return absent, next(words, None)

    def _by_word(
        self, chosen: Node, discriminator: Shape, tree: MappingContext
    ) -> tuple[int, str | None] | None:
        key: str = discriminator["key"]
        mapping: dict[str, int] = discriminator["mapping"]
        value = chosen.value if isinstance(chosen, Scalar) else chosen
        if value is None:
            self.problems.append(blame.report_empty(key, chosen.span))
        elif not isinstance(chosen, Scalar) or not isinstance(value, str):
            self.problems.append(
                blame.report_wrong_value(chosen, key, [{"type": "string", "enum": list(mapping)}])
            )
        else:
            word = fold_case(value, discriminator["case"])
            position = mapping.get(word, discriminator.get("other"))
            if position is not None:
                return position, word
            if "${{" not in value or "binding" not in discriminator:
                problem = blame.report_typed_literal(chosen, tree)
                self.problems.append(problem or blame.report_not_allowed(chosen, key, list(mapping)))
        return None

    def _mapping(self, tree: MappingContext) -> None:
        properties = tree.shape.get("properties")
        if properties is None:
            for key, value in tree.node.items():
                self._free(key, value, tree)
            if len(tree.node) < tree.shape.get("minProperties", 0):
                self.problems.append(keys.report_no_entries(tree))
            return
        anonymous = tree.shape.get("x-registered-only", ())
        meant: set[str] = set()
        blamed = False
        for key, value in tree.node.items():
            inner = properties.get(key.text)
            if inner is None:
                if len(self.problems) >= limits.FOUND:
                    return
                blamed = True
                problem, stands_for = keys.explain_key(key, tree, self.catalog)
                if problem is not None:
                    self.problems.append(problem)
                if stands_for is not None:
                    meant.add(stands_for)
            elif key.text not in anonymous:
                self._member(key, value, inner, tree)
        self.problems += keys.check_keys(tree, meant, blamed=blamed)

    def _member(self, key: Scalar, value: Node, shape: Shape, tree: MappingContext) -> None:
        if key.text in _NEVER_EMPTY and isinstance(value, Scalar) and value.value == "":
            self.problems.append(blame.report_empty(key.text, value.span))
        else:
            self.value(value, shape, key, tree)

    def _free(self, key: Scalar, value: Node, tree: MappingContext) -> None:
        """An entry of a mapping whose keys are names that the writer chose."""
        shape = tree.shape
        names = shape.get("propertyNames")
        if not isinstance(key.value, str) and (names is not None or "x-text-keys" in shape):
            self.problems.append(blame.report_name_not_text(key))
        elif names is not None and not fits_shape(key.text, names):
            message = f"`{key.text[:60]}` is not a name that a step can have"
            advice = "use lower-case letters, digits and `_`, and start with a letter or `_`"
            self.problems.append(Problem("aml-bad-name", key.span, message, advice))
        inner = shape.get("additionalProperties")
        if isinstance(inner, dict):
            self.value(value, inner, key, tree)


def _accepts_anything(part: Shape) -> bool:
    return not any(key in part for key in ("type", "enum", "oneOf", "x-kind", "pattern"))

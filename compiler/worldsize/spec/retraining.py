"""The block ``retrain:``: what it contradicts, and the two steps that it adds to the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from worldsize.base.problem import Problem
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence, find_node, list_entries
from worldsize.spec.model import Located, Retrain, Spec
from wspaired.rules import parse_rule
from wsshards.errors import UserError
from wsshards.terms import LANGUAGE_MODEL

SHARD, REGISTER, EVALUATE, COMPARE, PROMOTE = "shard_data", "register", "evaluate", "compare", "promote"
_BY_TIME = ("split_time", "validation_after", "test_after")  # inputs of `shard_data`
_SHARED = ("model", "shards", "model_name")  # inputs of `register` that `compare` needs as well
_STOPS = "schema, empty, nulls, range"  # the checks that stop a feed by default
_OF_RULE = ("metric", "rule", "minimum_rows")  # inputs of `compare` that are keys of `promote:`


def name_component(uses: str) -> str:
    """The name of a component that is built in, registered, or in a file."""
    if uses.startswith("azureml:"):
        return uses.removeprefix("azureml:").partition("@")[0].partition(":")[0]
    path = PurePosixPath(uses)
    return path.parent.name if path.suffix in (".yml", ".yaml") else path.name


def check_retrain(spec: Spec, block: Retrain) -> Iterator[Problem]:
    """Report what keeps a pipeline from being retrained."""
    used = {name_component(step.uses.value) for step in spec.steps.values() if step.uses is not None}
    for component, does in ((REGISTER, "registers the model"), (EVALUATE, "measures the model")):
        if component not in used:
            message = f"`retrain` needs a step that {does}"
            help_ = f"add a step with `uses: {component}`"
            yield Problem("spec-missing-key", block.span, message, help_)
    if all(step.scale is None for step in spec.steps.values()):
        message = "`retrain` needs a step that trains, and no step has `scale`"
        yield Problem("spec-missing-key", block.span, message, "add `scale:` to the step that trains")
    inputs = [name for name, declared in spec.inputs.items() if declared.is_data]
    for name, entry in block.data.items():
        if name not in inputs:
            what = "is a literal, not data" if name in spec.inputs else "is not an input of the pipeline"
            listed = f"inputs with data: {quoted_list(inputs)}" if inputs else None
            declaration = f"declare it: `inputs: {{{name}: {{type: uri_folder, path: ./data}}}}`"
            help_ = did_you_mean(name, inputs) or listed or declaration
            yield Problem("spec-unknown-key", entry.span, f"`{name}` {what}", help_)
    yield from _check_rules(block)


def check_division(spec: Spec, block: Retrain) -> Iterator[Problem]:
    """Report rows of which none is known to be new to the champion once there are more.

    A row of a table keeps its hash, which shows in which part it was; windows of text move as text is added.
    """
    if block.promote is not None and block.promote.rule is not None and block.promote.rule.value == "newest":
        return
    for name, step in spec.steps.items():
        if step.uses is None or name_component(step.uses.value) != SHARD:
            continue
        values = {key: located.value for key, located in step.with_.items()}
        given = values.get("split") == "given"
        tested = given or values.get("test_after") or values.get("test_fraction")
        are_rows = given or values.get("task") != LANGUAGE_MODEL or any(values.get(key) for key in _BY_TIME)
        if tested and are_rows:
            continue
        lacking = "by time" if tested else "into a test part"
        message = (
            f"`{name}` does not divide its rows {lacking}, so `retrain` never replaces its first champion"
        )
        division = "test: 0.2" if are_rows else "time: COLUMN, test: 0.2"
        column = "" if are_rows else ", with a column of dates or numbers"
        help_ = f"write `split: {{{division}}}` under `{name}:`{column}"
        yield Problem("retrain-never-promotes", block.span, message, help_)


def _check_rules(block: Retrain) -> Iterator[Problem]:
    """Report rules that ``compare`` would refuse."""
    promote = block.promote
    if promote is None:
        return
    for rule in [*([promote.rule] if promote.rule is not None else []), *promote.guards.values()]:
        yield from _check_rule(rule)


def _check_rule(rule: Located[str]) -> Iterator[Problem]:
    try:
        parse_rule(rule.value)
    except UserError as error:
        yield Problem("spec-bad-pattern", rule.span, error.message, error.help or None)


def add_steps(root: Mapping) -> Mapping:
    """A valid spec with ``compare`` before its register step and ``promote`` after it, unless it has them.

    A model that fails the gate of ``register`` is an outcome like any other: the champion stays.
    """
    at, block, steps = root.key("retrain"), root.get("retrain"), root.get("steps")
    if at is None or not isinstance(block, Mapping) or not isinstance(steps, Mapping):
        return root
    used: dict[str, Mapping] = {}
    for _, step in list_entries(steps):
        uses = find_node(step, "uses")
        if isinstance(uses, Scalar) and isinstance(step, Mapping):
            used.setdefault(name_component(uses.text), step)
    register = used.get(REGISTER)
    entries: list[tuple[Scalar, Node]] = []
    for key, step in steps.items():
        is_register = step is register
        uses = find_node(step, "uses")
        shards = isinstance(uses, Scalar) and uses.text == SHARD
        gated = _gate_feed(at, step, block.get("feed")) if shards else step
        if is_register and COMPARE not in used:
            entries.append(_make_step(at, COMPARE, steps, step, _list_compared(block, step)))
        entries.append((key, _skip_failed(at, step) if is_register else gated))
        if is_register and PROMOTE not in used:
            entries.append(_make_step(at, PROMOTE, steps, step, []))
    return _put(root, "steps", Mapping(steps.source, steps.start, steps.end, entries, steps.flow))


def _gate_feed(at: Scalar, shard: Node, feed: Node | None) -> Node:
    """A step that shards, with the checks of the feed as inputs, unless it has them."""
    texts = {"stop": _STOPS}
    for key, value in list_entries(feed):
        if isinstance(value, Sequence):
            texts[key.text] = ", ".join(getattr(check, "text", "") for check in value.items) or "none"
        elif isinstance(value, Mapping):
            pairs = [f"{name.text}: {getattr(number, 'text', '')}" for name, number in value.items()]
            texts |= {"thresholds": "; ".join(pairs)} if pairs else {}
    assert isinstance(shard, Mapping)
    entries = list_entries(find_node(shard, "with"))
    names = {key.text for key, _ in entries}
    more = {f"feed_{name}": text for name, text in texts.items() if f"feed_{name}" not in names}
    entries += [(_word(at, name), _word(at, text)) for name, text in more.items()]
    filled = Mapping(shard.source, shard.start, shard.end, entries)
    return _put(shard, "with", filled, None if "with" in shard else _word(at, "with"))


def _make_step(
    at: Scalar, component: str, steps: Mapping, register: Node, inputs: list[tuple[Scalar, Node]]
) -> tuple[Scalar, Node]:
    """A step at the place of the block, on the instance that registers."""
    name = component if component not in steps else f"{component}_champion"
    compute = find_node(register, "compute")
    entries: list[tuple[Scalar, Node]] = [(_word(at, "uses"), _word(at, component))]
    entries += [(_word(at, "compute"), compute)] if compute is not None else []
    entries.append((_word(at, "with"), Mapping(at.source, at.start, at.end, inputs)))
    return _word(at, name), Mapping(at.source, at.start, at.end, entries)


def _list_compared(block: Mapping, register: Node) -> list[tuple[Scalar, Node]]:
    """The inputs of ``compare``."""
    inputs, promote = find_node(register, "with"), block.get("promote")
    entries = [(key, value) for key, value in list_entries(inputs) if key.text in _SHARED]
    for key, value in list_entries(promote):
        if key.text in _OF_RULE:
            entries.append((key, value))
        elif key.text == "on" and isinstance(value, Scalar) and value.text != "newer_rows":
            entries.append((_word(key, "split"), value))
        elif key.text == "guards":
            rules = [f"{metric.text}: {getattr(rule, 'text', '')}" for metric, rule in list_entries(value)]
            entries += [(key, _word(key, "; ".join(rules)))] if rules else []
    return entries


def _skip_failed(at: Scalar, register: Node) -> Node:
    """The register step, which ends without an error if its gate fails, unless it says otherwise."""
    chosen = find_node(register, "on_fail") or find_node(register, "with", "on_fail")
    if not isinstance(register, Mapping) or "when" not in register or chosen is not None:
        return register
    return _put(register, "on_fail", _word(at, "skip"), _word(at, "on_fail"))


def _put(mapping: Mapping, name: str, value: Node, key: Scalar | None = None) -> Mapping:
    """The mapping with another value, or with one more entry."""
    entries = [(old, value if old.text == name else node) for old, node in mapping.items()]
    entries += [(key, value)] if key is not None else []
    return Mapping(mapping.source, mapping.start, mapping.end, entries, mapping.flow)


def _word(at: Scalar, text: str) -> Scalar:
    """A text at another's place."""
    return Scalar(at.source, at.start, at.end, text, '"')

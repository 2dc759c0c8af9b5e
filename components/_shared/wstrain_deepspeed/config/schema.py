"""The keys of DeepSpeed's configuration, from ``keys.json``, and a configuration held against them.

``keys.json`` was generated once from DeepSpeed itself. A *closed* block is one of its pydantic models and
refuses unknown keys; from an open one DeepSpeed reads the keys it knows and ignores the others.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from wstrain_deepspeed.config.findings import Finding, Known, Path, as_integer, as_json


class Key(NamedTuple):
    """One key of a block: its JSON types, choices and bounds, and the key that replaced it."""

    types: tuple[str, ...]
    choices: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    instead: str | None = None  # deprecated in favour of this
    moved: bool = False  # DeepSpeed sets the new key from the old, and refuses both together


class Block(NamedTuple):
    """The keys of one block, by name."""

    closed: bool
    keys: Mapping[str, Key]


class Tables(NamedTuple):
    """All keys and names, and the version of DeepSpeed that they are from."""

    version: str
    blocks: Mapping[str, Block]  # by dotted path, "" for the whole
    removed: frozenset[str]  # top-level keys that this version refuses and older ones knew
    removed_zero: frozenset[str]  # the same, of zero_optimization
    optimizers: frozenset[str]  # DeepSpeed's own, in lower case
    torch_optimizers: frozenset[str]
    schedulers: Mapping[str, Mapping[str, bool]]  # DeepSpeed's own; their parameters, True where required
    torch_schedulers: frozenset[str]


@cache
def read_tables() -> Tables:
    """Read ``keys.json``, once."""
    raw = json.loads(FilePath(__file__).with_name("keys.json").read_text(encoding="utf-8"))
    return Tables(
        version=raw["deepspeed"],
        blocks={name: _parse_block(block) for name, block in raw["blocks"].items()},
        removed=frozenset(raw["removed"]),
        removed_zero=frozenset(raw["removed_zero"]),
        optimizers=frozenset(raw["optimizers"]),
        torch_optimizers=frozenset(raw["torch_optimizers"]),
        schedulers=raw["schedulers"],
        torch_schedulers=frozenset(raw["torch_schedulers"]),
    )


def _parse_block(raw: Mapping[str, Any]) -> Block:
    return Block(raw["closed"], {name: _parse_key(key) for name, key in raw["keys"].items()})


def _parse_key(raw: Mapping[str, Any]) -> Key:
    return Key(
        tuple(raw["type"]),
        tuple(raw.get("of", ())),
        raw.get("min"),
        raw.get("above"),
        raw.get("max"),
        raw.get("instead"),
        raw.get("moved", False),
    )


_BOOLEANS = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0")
_ARTICLES = {
    "boolean": "true or false", "integer": "a whole number", "number": "a number", "text": "a text",
    "block": "an object `{…}`", "list": "a list `[…]`", "null": "null",
}  # fmt: skip
_COMMENT = ("_", "#", "//")  # how people write comments as keys


def check_keys(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Check every key of the configuration."""
    yield from _check_block(config, (), known)


def closest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    folded = {name.lower().replace("_", ""): name for name in sorted(known, reverse=True)}
    matches = difflib.get_close_matches(word.lower().replace("_", ""), folded, n=1, cutoff=0.8)
    return folded[matches[0]] if matches else None


def _check_block(values: Mapping[str, Any], path: Path, known: Known) -> Iterator[Finding]:
    table = read_tables().blocks[_name(path)]
    for key, value in values.items():
        place = (*path, key)
        entry = table.keys.get(key)
        if entry is None:
            yield from _unknown(key, place, table, known)
            continue
        if entry.instead is not None:
            yield from _deprecated(key, place, values, entry)
        yield from _value(key, value, place, entry, closed=table.closed)
        if isinstance(value, Mapping) and _name(place) in read_tables().blocks:
            yield from _check_block(value, place, known)


def _name(path: Path) -> str:
    return ".".join(str(part) for part in path)


def _unknown(key: str, place: Path, table: Block, known: Known) -> Iterator[Finding]:
    """Report an unknown key: a closed block refuses it, an open one ignores it."""
    version = read_tables().version
    removed = (
        read_tables().removed if len(place) == 1 else read_tables().removed_zero if len(place) == 2 else ()
    )
    if key in removed and (len(place) == 1 or place[0] == "zero_optimization"):
        message = f"`{key}` was removed: DeepSpeed {version} stops at it"
        yield Finding(
            "removed", place, message, "remove it, or pin an older version of DeepSpeed", on_key=True
        )
        return
    home = _home(key, place)
    near = closest_word(key, table.keys)
    where = f"`{_name(place[:-1])}`" if len(place) > 1 else "the configuration"
    help_ = f"did you mean `{near}`?" if near else "remove it"
    if home is not None and near is None:
        help_ = f"move it into `{home}`" if home else "move it out of the block, to the top level"
    if table.closed:
        message = f"`{key}` is not a key of {where}, and DeepSpeed {version} refuses it"
        yield Finding("key-refused", place, message, help_, on_key=True)
    elif (near or home is not None or known.pinned) and not key.startswith(_COMMENT):
        message = f"`{key}` is not a key of {where}: DeepSpeed ignores it"
        yield Finding("key-ignored", place, message, help_, on_key=True)


def _home(key: str, place: Path) -> str | None:
    """Return the only other block that has the key; "" is the top level."""
    skipped = {"enabled", "type", "params", "device", "dtype", "seed", "team", "group", "project", "profile"}
    if key in skipped:
        return None
    homes = [
        name
        for name, block in read_tables().blocks.items()
        if key in block.keys and name != _name(place[:-1])
    ]
    return homes[0] if len(homes) == 1 else None


def _deprecated(key: str, place: Path, values: Mapping[str, Any], entry: Key) -> Iterator[Finding]:
    if entry.moved and entry.instead is not None and entry.instead in values:
        message = (
            f"`{key}` and `{entry.instead}`, which replaced it, are both given, and DeepSpeed refuses that"
        )
        related = (((*place[:-1], entry.instead), "what replaced it"),)
        yield Finding("key-refused", place, message, f"remove `{key}`", on_key=True, related=related)
        return
    help_ = f"write `{entry.instead}`"
    if not values.get(key):
        help_ = "remove it: without it the result is the same"
    elif entry.instead in ("offload_optimizer", "offload_param"):
        help_ = f'write `"{entry.instead}": {{"device": "cpu"}}`'
    elif not entry.moved:
        help_ = "write `pin_memory` in `offload_optimizer` or `offload_param`"
    yield Finding("deprecated", place, f"`{key}` is deprecated", help_, on_key=True)


def _value(key: str, value: Any, place: Path, entry: Key, *, closed: bool) -> Iterator[Finding]:
    """Check one value against its type, choices and bounds."""
    if value == "auto" or (value is None and not closed):
        return
    fit = max((_fits(value, kind, closed=closed) for kind in entry.types), default=2)
    if fit < 2:
        wanted = " or ".join(_ARTICLES.get(kind, kind) for kind in entry.types if kind != "null")
        shown = f"the text {as_json(value)}" if isinstance(value, str) else as_json(value)
        message = f"`{key}` is {shown}, not {wanted}"
        text = "DeepSpeed reads it, other programs take any text for true" if fit else f"write {wanted}"
        yield Finding("text" if fit else "type", place, message, _retyped(value) or text)
        return
    if key == "stage" and as_integer(value) not in entry.choices:
        message = f"`stage` is {as_json(value)}, but ZeRO has the stages 0 to 3"
        yield Finding("value", place, message, "write 0, 1, 2 or 3")
    elif entry.choices and (value.lower() if isinstance(value, str) else value) not in entry.choices:
        listed = ", ".join(f"`{choice}`" for choice in entry.choices)
        near = closest_word(value, entry.choices) if isinstance(value, str) else None
        help_ = f"did you mean `{near}`?" if near else f"write one of {listed}"
        yield Finding("value", place, f"`{key}` is {as_json(value)}, not one of {listed}", help_)
    elif isinstance(value, int | float) and not isinstance(value, bool) and place[0] != "fp16":
        yield from _range(key, value, place, entry)


def _range(key: str, value: float, place: Path, entry: Key) -> Iterator[Finding]:
    noun = "a whole number" if entry.types[0] == "integer" else "a number"
    if entry.least is not None and value < entry.least:
        message = f"`{key}` is {as_json(value)} but must be at least {entry.least:g}"
        yield Finding("value", place, message, f"write {noun} of at least {entry.least:g}")
    elif entry.above is not None and value <= entry.above:
        message = f"`{key}` is {as_json(value)} but must be above {entry.above:g}"
        yield Finding("value", place, message, f"write {noun} above {entry.above:g}")
    elif entry.most is not None and value > entry.most:
        message = f"`{key}` is {as_json(value)} but must be at most {entry.most:g}"
        yield Finding("value", place, message, f"write {noun} of at most {entry.most:g}")


def _fits(value: Any, kind: str, *, closed: bool) -> int:
    """Return 2 if a value is of a type, 1 if DeepSpeed's models would convert it, 0 if it is wrong."""
    if kind == "any" or (kind == "null" and value is None):
        return 2
    if kind == "boolean":
        return _as_boolean(value, closed=closed)
    if kind in ("integer", "number"):
        return _as_number(value, kind, closed=closed)
    wanted = {"text": str, "block": Mapping, "list": list}.get(kind)
    return 2 * (wanted is not None and isinstance(value, wanted))


def _as_boolean(value: Any, *, closed: bool) -> int:
    if isinstance(value, bool):
        return 2
    if isinstance(value, str):
        return int(value.lower() in _BOOLEANS)
    return int(closed and value in (0, 1))


def _as_number(value: Any, kind: str, *, closed: bool) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 2 * (kind == "number" or as_integer(value) is not None)
    if not closed or not isinstance(value, str):
        return 0
    try:
        number = float(value)
    except ValueError:
        return 0
    return int(kind == "number" or number == number // 1)


def _retyped(value: Any) -> str | None:
    """Return the help for a value that only has the wrong quotes."""
    if not isinstance(value, str):
        return None
    if value.lower() in ("true", "false"):
        return f"write {value.lower()} without quotes"
    try:
        float(value)
    except ValueError:
        return None
    return f"write {value} without quotes"

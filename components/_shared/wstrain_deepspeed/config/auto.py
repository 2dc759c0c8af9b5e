"""``"auto"``: Hugging Face's integration fills it in, DeepSpeed itself does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wstrain_deepspeed.config.finding import Finding, Known, Path, at, on

_MEANT = {("data_types", "keep_in_fp32_modules"), ("hybrid_engine", "replace_method")}  # DeepSpeed's own


def check(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """One finding for all of them: they share a cause."""
    if known.fills_auto is not False or on(at(config, "autotuning", "enabled")):
        return
    places = [place for place in _places(config, ()) if place not in _MEANT and place[0] != "pipeline"]
    if not places:
        return
    rest = f", as {len(places) - 1} more are" if len(places) > 1 else ""
    message = f'`{places[0][-1]}` is "auto"{rest}, and only Hugging Face\'s trainers fill that in'
    related = tuple((place, "another") for place in places[1:4])
    yield Finding("auto", places[0], message, "write the value, or remove the key", related=related)


def _places(value: Any, path: Path) -> Iterator[Path]:
    if value == "auto":
        yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _places(inner, (*path, position))

"""The rows that a model is measured on."""

from __future__ import annotations

from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wsshards.terms import SPLITS


def choose_split(manifest: Manifest, name: str) -> str:
    """Return the split to evaluate on: `auto` is the test split if it has rows, else the validation split.

    Raises:
        UserError: the split has no rows.
    """
    split = name if name != "auto" else "test" if manifest.test.rows else "validation"
    if not manifest.split(split).rows:
        rows = ", ".join(f"{manifest.split(part).rows:,} in `{part}`" for part in SPLITS)
        fraction = "test_fraction" if split == "test" else "validation_fraction"
        raise UserError(
            f"the `{split}` split of the shards has no rows: there are {rows}",
            f"shard the data with a `{fraction}` above 0, or evaluate on another `split`",
        )
    return split

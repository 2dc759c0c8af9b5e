"""How far the rows are from those of the champion, as `shard_data` has measured it before it wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from plots import open_pyplot, shorten

from wsshards.errors import UserError, describe_error
from wsshards.manifest import AGAIN, FEED_NAME, has_valid_checksum
from wsshards.regular_files import read_regular

MAX_BYTES = 16 << 20
MAX_COLUMNS = 30  # that are shown


def read_drift(shards: Path) -> dict[str, float]:
    """Return the population stability index of each column, the largest first; none without a champion.

    Raises:
        UserError: `feed.json` is not what was written.
    """
    path = shards / FEED_NAME
    try:
        document = json.loads(read_regular(path, MAX_BYTES))
        distances = document["drift"] if has_valid_checksum(document) else None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read `{path}`: {describe_error(error)}", AGAIN) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        distances = None
    if distances is None:
        raise UserError(f"`{path}` is not what was written", AGAIN)
    drift = {name: float(distance["psi"]) for name, distance in distances.items()}
    return dict(sorted(drift.items(), key=lambda entry: -entry[1]))


def draw_drift(drift: Mapping[str, float], path: Path) -> Path:
    """Draw the index of the columns that have drifted furthest, as a PNG."""
    plt = open_pyplot()
    shown = list(drift.items())[:MAX_COLUMNS][::-1]
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.25 * len(shown)), layout="constrained")
    axes.barh(range(len(shown)), [psi for _, psi in shown], color="tab:blue")
    axes.set_yticks(range(len(shown)), [shorten(name) for name, _ in shown], parse_math=False)
    axes.set_xlabel("population stability index, against the champion's data")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path

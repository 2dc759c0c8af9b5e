"""What the looks at a pipeline did: its runs, a line for each look without one, and rollbacks by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from worldsize.retraining import local
from worldsize.retraining.facts import read_verdict
from worldsize.retraining.local import AttemptRecord, Place
from worldsize.retraining.looks import read_looks
from worldsize.running.record.history import RunRecord, load_run
from worldsize.running.record.models import HomeRegistry
from worldsize.running.show.firings import Firing, Retrained
from wschampion.champion import EVIDENCE, JOB, SINCE, TERM, Version, find_champion


def list_pipelines(home: Path) -> list[str]:
    """The names of the pipelines that were looked at."""
    with contextlib.suppress(OSError):
        return sorted(path.name for path in (home / "retrain").iterdir() if path.is_dir())
    return []


def read_history(home: Path, name: str) -> Retrained:
    """Everything that is known of a pipeline that was looked at, whatever is missing or damaged."""
    place = Place(home.resolve(), name)
    pairs = local.read_attempts(place)
    counted = _count_rows([record for _, record in pairs])
    firings = [Firing(look.now, look.action, look.reason) for look in read_looks(place.root)]
    model = None
    for attempt, record in pairs:
        start = next(start for start in record.starts if start.run == attempt.run)
        rows = [counted.get(reading.digest) for reading in record.readings.values()]
        firing = Firing(
            attempt.firing,
            attempt.state,
            attempt.reason,
            run=attempt.run,
            why=start.reason,
            rows=sum(filter(None, rows)) if rows and None not in rows else None,
            starts=attempt.starts,
        )
        firing, registered = add_documents(firing, load_run(place.run(attempt.run)))
        firings.append(firing)
        model = registered or model
    versions = HomeRegistry(place.home).versions(model) if model else []
    champion = find_champion(versions)
    firings += _list_rollbacks(versions)
    firings.sort(key=lambda firing: (firing.time, firing.run is None))
    if champion is None:
        return Retrained(name, firings, model)
    return Retrained(name, firings, model, champion.version, champion.tags.get(SINCE))


def _count_rows(records: list[AttemptRecord]) -> dict[str, int]:
    """The rows of each reading by its digest, where they were counted once."""
    counted = {}
    for record in records:
        for reading in record.readings.values():
            rows = [file.rows for file in reading.files.values()]
            if rows and None not in rows:
                counted[reading.digest] = sum(filter(None, rows))
    return counted


def add_documents(firing: Firing, run: RunRecord) -> tuple[Firing, str | None]:
    """A firing with what its run has measured and promoted, and the name of the model."""
    promotion = local.read_document(run, "promotion") or {}
    comparison = local.read_document(run, "comparison") or {}
    champion, challenger = comparison.get("champion"), comparison.get("challenger")
    difference = comparison.get("difference")
    numbers = {}
    if isinstance(difference, Mapping):
        read = {name: _read_number(difference.get(name)) for name in ("value", "low", "high", "rows")}
        numbers = {name: value for name, value in read.items() if value is not None}
    if run.state == "succeeded" and promotion:
        reason = _read_text(promotion.get("reason")) or ""
        firing = replace(firing, action=read_verdict(promotion), reason=reason)
    firing = replace(
        firing,
        version=_read_text(promotion.get("version")),
        champion=_read_text(promotion.get("champion")),
        metric=_read_text(comparison.get("metric")),
        old=_read_number(champion.get("metric")) if isinstance(champion, Mapping) else None,
        new=_read_number(challenger.get("metric")) if isinstance(challenger, Mapping) else None,
        difference=numbers if "value" in numbers else None,
        drift=_read_drift(run),
        seconds=run.seconds,
    )
    return firing, _read_text(promotion.get("name"))


def _read_drift(run: RunRecord) -> float | None:
    """The largest PSI of a column since the champion's feed, of what `shard_data` has measured."""
    drift = (local.read_document(run, "shards", "feed.json") or {}).get("drift")
    columns = drift.values() if isinstance(drift, Mapping) else ()
    values = [_read_number(column.get("psi")) for column in columns if isinstance(column, Mapping)]
    return max((value for value in values if value is not None), default=None)


def _list_rollbacks(versions: list[Version]) -> list[Firing]:
    """The champions that a person has made."""
    firings = []
    for version in versions:
        tags = version.tags
        if tags.get(TERM) and tags.get(SINCE) and not tags.get(JOB):
            with contextlib.suppress(ValueError):
                since = datetime.fromisoformat(tags[SINCE].replace("Z", "+00:00")).timestamp()
                reason = f"version {version.version} became the champion {tags.get(EVIDENCE, '')}".strip()
                firings.append(Firing(since, "rollback", reason, champion=version.version))
    return firings


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_number(value: object) -> float | None:
    """A finite number of a document; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return float(value)

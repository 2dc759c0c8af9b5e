"""Attempts to train in a workspace: the jobs that looks have submitted, by the tags that they bear."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize.api.look_files import Retrained
from worldsize.remote.jobs import RemoteJob, read_job
from worldsize.remote.logs import parse_time, run_state, step_state
from worldsize.remote.rest import Rest
from worldsize.retraining.facts import ROWS_TAG, TAG, Attempt, Cause, Fingerprint, find_limit
from worldsize.retraining.local import judge_failure
from worldsize.running.model.results import DONE
from worldsize.running.record.models import select_tags

_ATTEMPT, _FIRING, _LOOK, _REASON = f"{TAG}.attempt", f"{TAG}.firing", f"{TAG}.look", f"{TAG}.reason"
_CODE, _DATA = f"{TAG}.code", f"{TAG}.data."
_LONGEST = 256  # characters of a tag's value that Azure ML keeps
_RECENT = 10  # attempts of which more is read than their tags
_LAST_LINES = 40
# How the service and a local workspace say in an error by what a process ended.
_STATUS = re.compile(
    r"\bexit(?:ed with)? status(?: code)? (?P<status>-?\d{1,3})\b|killed by (?P<signal>SIG[A-Z]+)"
)
_KILLED = 128  # and the number of the signal: how a shell reports a process that was killed
_OF_USERS = "UserError"  # the code of an error that the job made itself


class Start(Struct, frozen=True):
    """A job that trains: the first of an attempt, or one that continues it."""

    attempt: str  # the name of its first job
    fingerprint: Fingerprint
    firing: float  # the time of the look
    rows: Mapping[str, int]  # of the inputs whose rows are counted
    name: str = ""
    status: str = ""
    created: float = 0.0


def write_tags(start: Start, pipeline: str, reason: str, look: str | None) -> dict[str, str]:
    """The tags of a job that is about to be submitted."""
    firing = datetime.fromtimestamp(start.firing, timezone.utc).isoformat()
    tags = {TAG: pipeline, _ATTEMPT: start.attempt, _FIRING: firing, _REASON: reason, _LOOK: look or ""}
    tags |= {_CODE: start.fingerprint.code}
    tags |= {f"{_DATA}{name}": digest for name, digest in start.fingerprint.data.items()}
    tags |= {f"{ROWS_TAG}{name}": str(rows) for name, rows in start.rows.items()}
    return {name: text[:_LONGEST] for name, text in tags.items()}


def list_starts(rest: Rest, pipeline: str) -> list[Start]:
    """The jobs that train a pipeline, the oldest first; archived ones count too."""
    starts = []
    for document in rest.list("/jobs", tag=TAG, listViewType="All"):
        tags = document["properties"].get("tags") or {}
        if tags.get(TAG) == pipeline and _CODE in tags:
            starts.append(_read_start(document, tags))
    return sorted(starts, key=lambda start: (start.created, start.name))


def _read_start(document: Mapping[str, Any], tags: Mapping[str, str]) -> Start:
    name = str(document["name"])
    created = parse_time((document.get("systemData") or {}).get("createdAt"))
    rows = select_tags(tags, ROWS_TAG)
    return Start(
        tags.get(_ATTEMPT) or name,
        Fingerprint(tags[_CODE], select_tags(tags, _DATA)),
        datetime.fromisoformat(tags[_FIRING]).timestamp() if _FIRING in tags else 0.0,
        {key: int(text) for key, text in rows.items() if text.isdecimal()},
        name,
        str(document["properties"].get("status")),
        created.timestamp() if created is not None else 0.0,
    )


def group_starts(starts: Sequence[Start]) -> list[list[Start]]:
    """The jobs of each attempt, in the order in which the attempts were started last."""
    groups: dict[str, list[Start]] = {}
    for start in starts:
        groups.setdefault(start.attempt, []).append(start)
    return sorted(groups.values(), key=lambda group: group[-1].created)


def read_attempts(
    rest: Rest, starts: Sequence[Start], retrained: Retrained
) -> list[tuple[Attempt, RemoteJob | None]]:
    """The attempts in the order in which they were started last; with the last job of the newer ones."""
    groups = group_starts(starts)
    pairs: list[tuple[Attempt, RemoteJob | None]] = []
    for place, group in enumerate(groups):
        job = read_job(rest, group[-1].name) if place >= len(groups) - _RECENT else None
        attempt = _summarise(group)
        pairs.append((attempt if job is None else _describe(attempt, job, retrained), job))
    limit = find_limit(attempt for attempt, _ in pairs)
    return [(_judge_canceled(replace(attempt, limit=limit), retrained), job) for attempt, job in pairs]


def _summarise(group: Sequence[Start]) -> Attempt:
    """An attempt by the tags and the state of its jobs."""
    last, state = group[-1], run_state(group[-1].status)
    attempt = Attempt(
        last.name,
        last.fingerprint,
        "running",
        firing=group[0].firing,
        began=last.created,
        ended=last.created,
        starts=len(group),
    )
    if state == "succeeded":
        return replace(attempt, state="finished")
    if state == "failed":
        return replace(attempt, state="failed", cause="code")
    return replace(attempt, state="interrupted") if state == "canceled" else attempt


def _describe(attempt: Attempt, job: RemoteJob, retrained: Retrained) -> Attempt:
    """The attempt with what only its last job tells."""
    record, steps = job.record, job.steps
    began = record.started.timestamp() if record.started is not None else attempt.began
    trained = [name in steps and step_state(steps[name].run) in DONE for name in retrained.trainers]
    attempt = replace(attempt, ended=began + record.seconds, trained=bool(trained) and all(trained))
    if attempt.state != "failed":
        return attempt
    cause, reason = _explain_failure(job)
    return replace(attempt, cause=cause, reason=reason)


def _explain_failure(job: RemoteJob) -> tuple[Cause, str]:
    """Why a job failed, by its first failed step; what the service itself was at fault for passes."""
    record = job.record
    step = next((step for step in record.steps.values() if step.state == "failed"), None)
    run = job.steps[step.name].run if step is not None else job.run
    error = run.get("error") or {}
    code = (error.get("error") or error).get("code")
    reason = (step.reason if step is not None else record.reason) or "it failed"
    if code is not None and code != _OF_USERS:
        return "machine", reason
    if step is None:
        return "configuration", reason
    return judge_failure(step, job.last_lines(step, _LAST_LINES), parse_status(reason))


def parse_status(text: str) -> int | None:
    """The exit status in an error, a signal as a negative number."""
    match = _STATUS.search(text)
    if match is None:
        return None
    if match["signal"] is not None:
        return -int(getattr(signal, match["signal"], 0))
    status = int(match["status"])
    return _KILLED - status if status > _KILLED else status


def _judge_canceled(attempt: Attempt, retrained: Retrained) -> Attempt:
    """An attempt that is not continued: somebody canceled it, or its code is not that of this look."""
    ended = attempt.state in ("failed", "interrupted")
    if ended and attempt.fingerprint.code != retrained.code:
        return replace(attempt, state="failed", cause="code", reason="its code or its spec has changed")
    if attempt.state != "interrupted":
        return attempt
    if attempt.limit is not None and attempt.ended - attempt.began > attempt.limit:
        return replace(attempt, state="failed", cause="time", reason="it took longer than its limit")
    return replace(attempt, state="failed", cause="configuration", reason="it was canceled")

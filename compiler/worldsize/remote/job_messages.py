"""What only the logs of a job tell: the models that it registered, and steps that ran not as planned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from worldsize.remote import logs
from worldsize.remote.rest import Rest
from worldsize.running.model.results import Registration

LAST_LINES = 40  # of a step that registers a model
# Where `worldsize serve` writes how the steps of a pipeline and of a command run on its machine.
NOTICES = ("logs/azureml/executionlogs.txt", "user_logs/std_log_notices.txt")
_REGISTERED = re.compile(r"registered (?P<name>\S.{0,250}) version (?P<version>\d{1,9})")
_DECLINED = re.compile(r"nothing is registered: (?P<reason>.{1,1000})")
_FITTED = re.compile(
    r"(?:\[[^]]{1,40}\] )?(?P<step>[\w.-]{1,255}): "
    r"(?P<text>planned for \d{1,9} (?:process|replica)e?s? .{0,200}?running (?P<count>\d{1,9}) here.{0,1000})"
)


class Fitted(NamedTuple):
    """A step that runs with another number of processes than planned."""

    processes: int
    text: str  # both numbers, and what follows for the batch


def parse_registration(lines: Iterable[str], name: str) -> Registration | None:
    """What the built-in component `register` has written: the version, or why there is none."""
    for line in lines:
        if found := _REGISTERED.fullmatch(line):
            return Registration(found["name"], found["version"])
        if found := _DECLINED.fullmatch(line):
            return Registration(name, None, found["reason"])
    return None


def read_registration(rest: Rest, run: str, name: str) -> Registration | None:
    """The model of a step that has succeeded; None if its log does not name one."""
    return parse_registration(logs.last_lines(rest, run, LAST_LINES), name)


def parse_fitted(lines: Iterable[str]) -> dict[str, Fitted]:
    """The steps that run with other processes than planned, by name."""
    found = filter(None, map(_FITTED.fullmatch, lines))
    return {each["step"]: Fitted(int(each["count"]), each["text"]) for each in found}


def read_fitted(rest: Rest, job: str) -> Mapping[str, Fitted]:
    """The same of a job; a workspace in Azure runs what was planned, and has no such lines."""
    files = rest.run_details(job).get("logFiles") or {}
    followers = (logs.RemoteFollower(rest, files[path]) for path in NOTICES if path in files)
    return parse_fitted(line for each in followers for line in each.lines(final=True))

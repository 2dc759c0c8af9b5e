"""The logs of a run in a workspace: one for each process, read from storage as they grow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from worldsize.documents.diagnostics.snippet import flatten
from worldsize.remote.rest import Rest
from worldsize.remote.states import ENDED, error_of
from worldsize.running.launch.logs import Decoder

OF_USERS = "user_logs/"  # what the command has written; other folders have the service's own logs
_RANK = re.compile(r"(?:std_log_process_|rank-)(\d{1,9})$")


class RemoteFollower:
    """Reads a growing log from its last position."""

    def __init__(self, rest: Rest, url: str) -> None:
        self._rest, self._url = rest, url
        self._position = 0
        self._decoder = Decoder()

    def lines(self, *, final: bool = False) -> list[str]:
        """The lines that were completed since the last call."""
        data = self._rest.read_bytes(self._url, self._position)
        self._position += len(data)
        return self._decoder.feed(data, final=final)


class RemoteLogs:
    """The logs of one run, by the name of their process (``rank-3``), or that of their file."""

    def __init__(self, rest: Rest, run: str) -> None:
        self._rest, self._run = rest, run
        self._followers: dict[str, RemoteFollower] = {}
        self.has_ended = False
        self.failure: str | None = None  # why there may be no log

    def followers(self) -> Mapping[str, RemoteFollower]:
        """The readers of all logs that there are now; :attr:`has_ended` says whether they are complete."""
        details = self._rest.run_details(self._run)
        self.has_ended, self.failure = details.get("status") in ENDED, error_of(details)
        files = details.get("logFiles") or {}
        for name, path in name_processes(files).items():
            if name not in self._followers:
                self._followers[name] = RemoteFollower(self._rest, files[path])
        return self._followers


def name_processes(files: Mapping[str, str]) -> dict[str, str]:
    """The paths of the logs that commands have written, by the name of the process."""
    paths = [path for path in files if path.startswith(OF_USERS)] or list(files)
    named = {}
    for path in paths:
        stem = PurePosixPath(path).stem
        rank = _RANK.search(stem)
        named[f"rank-{int(rank[1])}" if rank else stem] = path
    return named


def last_lines(rest: Rest, run: str, count: int) -> list[str]:
    """The last lines that a run has written; of several processes, those of the first that wrote any."""
    logs = RemoteLogs(rest, run)
    for follower in logs.followers().values():
        if lines := [line for line in follower.lines(final=True) if line.strip()]:
            return [flatten(line.expandtabs()) for line in lines[-count:]]
    return []

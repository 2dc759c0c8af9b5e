"""The logs of a job's processes, which follow while the job runs."""

from __future__ import annotations

import asyncio

from nicegui import ui

from worldsize.base.wording import format_size
from worldsize.running.record.history import load_run
from worldsize.serving.jobs.records import JobRecord, get_job
from worldsize.serving.page.queries.files import file_url
from worldsize.serving.page.queries.logs import Log, LogTail, choose_log, list_logs
from worldsize.serving.page.views import frame
from worldsize.serving.workspace import Workspace

FOLLOW_SECONDS = 1.0
MAX_BLOCKS = 200  # of lines that came together; older ones are removed from the page


class LogView:
    """One log at a time. It stays at its end while it grows, unless the reader has scrolled up."""

    def __init__(self, workspace: Workspace, job: JobRecord) -> None:
        self._workspace, self._job = workspace, job
        self._logs: dict[str, Log] = {}
        self._tail: LogTail | None = None
        self._key = ""
        self._busy = False
        with ui.element("div").classes("ws-row"):
            self._choice = ui.select([], label="Process", on_change=lambda event: self._open(event.value))
            self._choice.props("outlined dense options-dense").classes("ws-grow")
            self._note = ui.label().classes("ws-soft ws-grow")
            self._download = frame.link("Download", "#")
        self._box = ui.element("div").classes("ws-log").props("tabindex=0 role=log aria-live=off")
        with self._box:
            self._lines = ui.element("div")
        self._empty = frame.empty("No process has written a log yet.")
        ui.timer(FOLLOW_SECONDS, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Look for new logs, and for new lines of the one that is shown."""
        if self._busy:
            return
        self._busy = True
        try:
            await self._look()
        finally:
            self._busy = False

    async def _look(self) -> None:
        found = await asyncio.to_thread(list_logs, self._workspace.home, self._job)
        if {log.key for log in found} != self._logs.keys():
            self._logs = {log.key: log for log in found}
            single = len({log.step for log in found}) == 1
            self._choice.set_options(
                {log.key: log.process if single else f"{log.step} · {log.process}" for log in found}
            )
            if not self._key and found:
                run = await asyncio.to_thread(load_run, self._workspace.home.runs / self._job.root)
                self._choice.set_value(choose_log(found, run).key)
        for element in (self._choice, self._box, self._download):
            element.set_visibility(bool(found))
        self._empty.set_visibility(not found)
        if self._tail is not None:
            job = get_job(self._workspace.database, self._job.name)
            final = job is None or job.has_ended
            self._append(await asyncio.to_thread(self._tail.read_lines, final=final))

    def _open(self, key: str | None) -> None:
        log = self._logs.get(key or "")
        if log is None or key == self._key:
            return
        self._key, self._tail = log.key, LogTail(log.path)
        self._lines.clear()
        self._box.props["aria-label"] = f"Log of {log.key}"
        self._download.props["href"] = log_url(self._job, log)
        self._append(self._tail.read_lines())

    def _append(self, lines: list[str]) -> None:
        assert self._tail is not None
        skipped = self._tail.skipped
        self._note.set_text(f"The first {format_size(skipped)} are left out." if skipped else "")
        if not lines:
            return
        with self._lines:
            ui.label("\n".join(lines)).classes("ws-lines")
        for old in self._lines.default_slot.children[:-MAX_BLOCKS]:
            old.delete()


def log_url(job: JobRecord, log: Log) -> str:
    """The address of a whole log."""
    return file_url("jobs", job.name, f"log-{log.step}/{log.path.name}")

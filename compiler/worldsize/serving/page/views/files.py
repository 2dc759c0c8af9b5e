"""A browser of files: the outputs of a job, or the content of an asset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from nicegui import ui

from worldsize.base.wording import format_size
from worldsize.serving.page.queries.files import Entry, Preview, file_url, preview_file
from worldsize.serving.page.views import frame


class FileSource(Struct, frozen=True):
    """Where files come from: ``entries`` lists the folder of a path, ``find`` gives the file of one."""

    kind: str  # for the addresses of downloads
    name: str
    entries: Callable[[str], Sequence[Entry]]
    find: Callable[[str], Path | None]


class FileBrowser:
    """One folder at a time, and the preview of one file."""

    def __init__(self, source: FileSource, root: str, title: str) -> None:
        self._source, self._root, self._title = source, root, title
        self._area = ui.element("section").classes("ws-section")
        self._area.props["aria-label"] = title
        self.open(root)

    def open(self, path: str) -> None:
        """Show a folder."""
        self._area.clear()
        with self._area:
            self._way(path)
            entries = self._source.entries(path)
            if not entries:
                frame.empty("This folder is empty.")
                return
            with ui.element("ul").classes("ws-files"):
                for entry in entries:
                    self._entry(entry)
            self._preview = ui.element("div").classes("ws-column").props("aria-live=polite")

    def _way(self, path: str) -> None:
        """The title, the folders above, and the download of this one."""
        inner = path[len(self._root) :].strip("/")
        parts = inner.split("/") if inner else []
        with ui.element("div").classes("ws-row"):
            with ui.element("div").classes("ws-grow"):
                frame.heading(self._title)
            frame.link("Download as ZIP", file_url(self._source.kind, self._source.name, path))
        if not parts:
            return
        with ui.element("nav").classes("ws-crumbs") as way:
            way.props["aria-label"] = f"Folders of {self._title}"
            self._step("All", self._root)
            for index, part in enumerate(parts):
                self._step(part, "/".join(filter(None, [self._root, *parts[: index + 1]])))

    def _step(self, text: str, path: str) -> None:
        ui.button(text, on_click=lambda: self.open(path), color=None).props("flat dense no-caps").classes(
            "ws-path"
        )

    def _entry(self, entry: Entry) -> None:
        with ui.element("li"):
            if entry.folder:
                opener = ui.button(f"{entry.name}/", on_click=lambda: self.open(entry.path), color=None)
            else:
                opener = ui.button(entry.name, on_click=lambda: self.show(entry), color=None)
            opener.props("flat dense no-caps").classes("ws-file")
            ui.label("" if entry.folder else format_size(entry.size)).classes("ws-soft ws-size")
            target = frame.link("Download", file_url(self._source.kind, self._source.name, entry.path))
            target.props["aria-label"] = f"Download {entry.name}"

    async def show(self, entry: Entry) -> None:
        """Show the beginning of a file."""
        path = self._source.find(entry.path)
        preview = Preview("none", "The file is gone.")
        if path is not None:
            preview = await asyncio.to_thread(preview_file, path)
        self._preview.clear()
        with self._preview:
            frame.heading(entry.name, 3)
            image = file_url(self._source.kind, self._source.name, entry.path, inline=True)
            show_preview(preview, image, entry.name)


def show_preview(preview: Preview, image: str, name: str) -> None:
    """What is shown of a file."""
    if preview.kind == "image":
        picture = ui.element("img").classes("ws-image")
        picture.props["src"], picture.props["alt"] = image, name
    elif preview.kind == "text":
        code(preview.text, f"Beginning of {name}")
    elif preview.kind == "table":
        columns = [frame.Column(f"c{index}", title) for index, title in enumerate(preview.columns)]
        rows = [
            {"id": str(number), **{f"c{index}": frame.text_cell(cell) for index, cell in enumerate(row)}}
            for number, row in enumerate(preview.rows)
        ]
        with ui.element("div").classes("ws-scroll"):
            frame.show_table(f"Rows of {name}", columns, rows, empty="The table has no rows.")
    else:
        frame.empty(preview.text)
    if preview.cut:
        ui.label("Only the beginning is shown. Download the file for the rest.").classes("ws-soft")


def code(text: str, label: str) -> None:
    """A text of several lines as it is."""
    block = ui.label(frame.cut(text, frame.LONG)).classes("ws-code").props("tabindex=0 role=region")
    block.props["aria-label"] = label

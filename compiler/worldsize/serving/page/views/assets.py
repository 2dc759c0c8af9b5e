"""Models, data, components and environments: the names, and the versions of one; and clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from worldsize.base.wording import plural
from worldsize.running.show.firings import WORDS, Firing, Retrained, draw_firings, draw_key, show_time
from worldsize.serving.control.assets import Resource
from worldsize.serving.control.computes import list_computes
from worldsize.serving.database import collect_unreadable, mapping_of, text_of
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.queries.assets import (
    Version,
    find_version,
    list_assets,
    list_versions,
    local_folder,
    short_location,
)
from worldsize.serving.page.queries.files import list_folder, preview_file, resolve_inside
from worldsize.serving.page.queries.forms import component_fields
from worldsize.serving.page.queries.retraining import find_retrained
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import FileBrowser, FileSource, code, show_preview
from worldsize.serving.workspace import Workspace

TITLES = {"models": "Models", "data": "Data", "components": "Components", "environments": "Environments"}
_NONE = {
    "models": "No models yet. A job that calls mlflow.register_model, or `az ml model create`, adds one.",
    "data": "No data assets yet. Create one with `az ml data create`.",
    "components": "No components yet. Register one with `az ml component create`.",
    "environments": "No environments yet. Create one with `az ml environment create`.",
}
_COLUMNS = (
    frame.Column("name", "Name"),
    frame.Column("version", "Newest version"),
    frame.Column("type", "Type", "ws-keep"),
    frame.Column("created", "Created", "ws-keep"),
)
_VERSIONS = (
    frame.Column("version", "Version"),
    frame.Column("marks", "Aliases and stage"),
    frame.Column("job", "Made by"),
    frame.Column("created", "Created", "ws-keep"),
)


async def draw_assets(workspace: Workspace, kind: str, text: str = "") -> None:
    """The list of a kind."""
    title = TITLES[kind]
    with frame.frame(workspace, title, title):
        search = (
            ui.input("Search", value=text).props("outlined dense clearable debounce=300").classes("ws-grow")
        )
        listing = frame.Listing(
            title,
            _COLUMNS,
            lambda: list_assets(workspace, kind, search.value or ""),
            partial(_asset_row, kind),
            _NONE[kind],
        )

        async def change() -> None:
            nothing = "Nothing fits this search." if search.value else _NONE[kind]
            listing.table.props["no-data-label"] = nothing
            await listing.refresh()

        search.on_value_change(change)
        await change()


def _asset_row(kind: str, newest: Version) -> frame.Row:
    return {
        "id": newest.name,
        "name": frame.link_cell(newest.name, frame.address(kind, newest.name), newest.description),
        "version": frame.text_cell(newest.version, plural(newest.count, "version")),
        "type": frame.text_cell(newest.type),
        "created": frame.text_cell(frame.time_words(newest.created)),
    }


async def draw_asset(workspace: Workspace, kind: str, name: str, version: str = "") -> None:
    """The versions of a name, and one of them: the newest, or that of the address."""
    with collect_unreadable() as faults:
        versions = await asyncio.to_thread(list_versions, workspace, kind, name)
    chosen = next((candidate for candidate in versions if version in ("", candidate.version)), None)
    if chosen is None and version:
        chosen = await asyncio.to_thread(find_version, workspace, kind, name, version)
    title = TITLES[kind]
    if chosen is None:
        frame.not_found(
            workspace, f"{title[:-1] if kind != 'data' else title} {name} {version}".strip(), title
        )
        return
    with frame.frame(workspace, f"{name} {chosen.version}", title, [(title, f"/{kind}")], is_heading=False):
        frame.heading(f"{name}, version {chosen.version}", 1)
        if chosen.description:
            ui.label(frame.cut(chosen.description, frame.LONG)).classes("ws-text")
        with ui.element("div").classes("ws-panel"):
            frame.facts(await asyncio.to_thread(_asset_facts, workspace, chosen), "ws-flow")
        frame.fact_panel("Tags", chosen.tags)
        await _DETAILS[kind](workspace, chosen)
        if kind == "models":
            await _show_retrained(workspace, name)
        frame.heading("Versions")
        rows = await asyncio.to_thread(lambda: [_version_row(workspace, listed) for listed in versions])
        filled = [column for column in _VERSIONS if any(row[column.name]["text"] for row in rows)]
        frame.show_table(f"Versions of {name}", filled, rows, empty="")
        if faults:
            ui.label(frame.say_unreadable(faults)).classes("ws-soft ws-text")


def _asset_facts(workspace: Workspace, version: Version) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("Type", version.type),
        ("Aliases and stage", ", ".join(version.marks)),
        ("Created", frame.time_words(version.created)),
        ("Location", short_location(version.uri)),
    ]
    shown = [(name, value) for name, value in pairs if value]
    job = None if version.job is None else get_job(workspace.database, version.job)
    if job is not None:
        name, target = job.display_name, frame.address("jobs", job.name)
        shown.append(("Made by", lambda: frame.link(name, target)))
    return shown


def _version_row(workspace: Workspace, version: Version) -> frame.Row:
    job = None if version.job is None else get_job(workspace.database, version.job)
    return {
        "id": version.version,
        "version": frame.link_cell(
            version.version, frame.address(version.kind, version.name, version=version.version)
        ),
        "marks": frame.text_cell(", ".join(version.marks)),
        "job": frame.text_cell("")
        if job is None
        else frame.link_cell(job.display_name, frame.address("jobs", job.name)),
        "created": frame.text_cell(frame.time_words(version.created)),
    }


async def _show_files(workspace: Workspace, version: Version) -> None:
    """The files of a model or data asset; a single file is shown at once."""
    base = local_folder(workspace, version.uri)
    real = None if base is None else resolve_inside(workspace.home, base, "")
    if base is None or real is None:
        frame.empty("The content of this version is not kept in the workspace's own storage.")
        return
    name = f"{version.name}:{version.version}"
    if real.is_dir():
        source = FileSource(
            version.kind,
            name,
            lambda path: list_folder(workspace.home, base, path),
            lambda path: resolve_inside(workspace.home, base, path),
        )
        FileBrowser(source, "", "Files")
        return
    frame.heading("Content")
    frame.link("Download", f"{frame.address('files', version.kind, name)}/")
    show_preview(
        await asyncio.to_thread(preview_file, real),
        f"{frame.address('files', version.kind, name)}/?inline=1",
        base.name,
    )


async def _show_component(_workspace: Workspace, version: Version) -> None:
    spec = mapping_of(version.properties, "componentSpec")
    fields = component_fields(spec)
    with frame.panel("Inputs as the designer shows them"):
        values = [field for field in fields if not field.data]
        for field in fields[: frame.MOST_FACTS]:
            if field.data:
                ui.label(f"{field.name}: {field.hint}").classes("ws-text")
                if field.description:
                    ui.label(field.description).classes("ws-soft")
        frame.Form(values)
        if not fields:
            ui.label("This component has no inputs.").classes("ws-soft")
    outputs = mapping_of(spec, "outputs")
    if outputs:
        with frame.panel("Outputs"):
            frame.facts((name, text_of(mapping_of(outputs, name), "type")) for name in outputs)
    if command := text_of(spec, "command"):
        with frame.panel("Command"):
            code(command, "Command")
    words = await asyncio.to_thread(frame.document_words, spec)
    with ui.expansion("Specification").classes("ws-more"):
        code(words, "Specification")


async def _show_environment(_workspace: Workspace, version: Version) -> None:
    properties = version.properties
    build = mapping_of(properties, "build")
    pairs = [
        ("Image", text_of(properties, "image")),
        ("Build context", text_of(build, "contextUri")),
        ("Dockerfile", text_of(build, "dockerfilePath")),
        ("Operating system", text_of(properties, "osType")),
    ]
    with frame.panel("Definition"):
        frame.facts((name, value) for name, value in pairs if value)
    if conda := text_of(properties, "condaFile"):
        with frame.panel("Conda packages"):
            code(conda, "Conda file")


_DETAILS: dict[str, Callable[[Workspace, Version], Awaitable[None]]] = {
    "models": _show_files,
    "data": _show_files,
    "components": _show_component,
    "environments": _show_environment,
}


_MOST_LOOKS = 100  # looks of the table, the newest
_LOOKS = (
    frame.Column("when", "When (UTC)", "ws-keep"),
    frame.Column("decision", "Decision", "ws-keep"),
    frame.Column("why", "Why"),
    frame.Column("rows", "Rows", "ws-right"),
    frame.Column("job", "Job"),
)


async def _show_retrained(workspace: Workspace, model: str) -> None:
    """A panel for each pipeline that was looked at; nothing for a model that is not retrained."""
    for retrained in await asyncio.to_thread(lambda: [*find_retrained(workspace, model)]):
        if retrained.firings:
            pictures = (draw_firings(retrained.firings), draw_key([f.action for f in retrained.firings]))
            with frame.panel(f"Retraining of {retrained.name}"):
                ui.html("".join(pictures), sanitize=False).classes("ws-year")  # every text in it is escaped
                newest = reversed(retrained.firings[-_MOST_LOOKS:])
                rows = [_look_row(number, firing, retrained) for number, firing in enumerate(newest)]
                frame.show_table(f"Looks at {retrained.name}", _LOOKS, rows, empty="")


def _look_row(number: int, firing: Firing, retrained: Retrained) -> frame.Row:
    address = retrained.links.get(firing.run or "")
    return {
        "id": str(number),
        "when": frame.text_cell(show_time(firing.time)),
        "decision": frame.text_cell(WORDS.get(firing.action, firing.action)),
        "why": frame.text_cell(firing.reason or firing.why, firing.why if firing.reason else ""),
        "rows": frame.text_cell("" if firing.rows is None else f"{firing.rows:,}"),
        "job": frame.link_cell(firing.run, address)
        if firing.run and address
        else frame.text_cell(firing.run or ""),
    }


_CLUSTERS = (
    frame.Column("name", "Name"),
    frame.Column("type", "Type", "ws-keep"),
    frame.Column("size", "VM size"),
    frame.Column("nodes", "Instances", "ws-right"),
    frame.Column("priority", "Priority"),
)


async def draw_compute(workspace: Workspace) -> None:
    """The page of clusters."""
    with frame.frame(workspace, "Compute", "Compute"):
        frame.tagged(
            "p",
            "Jobs are planned for these clusters and run on this machine. Pipelines that Worldsize compiled"
            " run as many processes as fit, with more accumulation, so that the global batch stays the same;"
            " other jobs run those that they ask for.",
            "ws-soft",
        )
        nothing = "No clusters. Describe them in worldsize.yml, or create one with `az ml compute create`."
        await frame.Listing(
            "Clusters", _CLUSTERS, partial(list_computes, workspace), _cluster_row, nothing
        ).refresh()


def _cluster_row(compute: Resource) -> frame.Row:
    outer = mapping_of(compute.body, "properties")
    inner = mapping_of(outer, "properties")
    scale = mapping_of(inner, "scaleSettings")
    low, high = scale.get("minNodeCount"), scale.get("maxNodeCount")
    return {
        "id": compute.name,
        "name": frame.text_cell(compute.name, text_of(outer, "description")),
        "type": frame.text_cell(text_of(outer, "computeType")),
        "size": frame.text_cell(text_of(inner, "vmSize")),
        "nodes": frame.text_cell(
            "" if high is None else f"{frame.value_words(low or 0)} to {frame.value_words(high)}"
        ),
        "priority": frame.text_cell(text_of(inner, "vmPriority")),
    }

"""A workspace as a look finds it: jobs and models by their tags, and the newest data.

Nothing is kept but what the jobs that train bear as tags. Two looks at the same moment give the job that they
submit the same name, which the service takes once.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from worldsize import api
from worldsize.api.look_files import (
    CHECKPOINTS,
    INITIAL,
    REFERENCE,
    RESUMED,
    RETRAINED,
    Retrained,
    Watched,
    describe_retrained,
)
from worldsize.azureml.references import classify
from worldsize.base import untrusted
from worldsize.base.problem import HelpfulError
from worldsize.base.wording import describe_os_error
from worldsize.documents import yaml
from worldsize.remote.errors import explain_errors
from worldsize.remote.jobs import RemoteJob, read_job
from worldsize.remote.logs import ENDED, step_state
from worldsize.remote.models import WorkspaceRegistry
from worldsize.remote.names import find_workspace
from worldsize.remote.rest import Rest
from worldsize.remote.submit import make_client, quiet
from worldsize.retraining import data
from worldsize.retraining.decide import Action, Notice
from worldsize.retraining.facts import Facts, Fingerprint, add_verdict
from worldsize.retraining.look import Outcome, RetrainError, count_firings, require_policy, take_look
from worldsize.retraining.policy import DataPolicy
from worldsize.retraining.starts import Start, list_starts, read_attempts, write_tags
from worldsize.running.model.results import DONE
from worldsize.running.record.json_files import read_json
from worldsize.running.reuse.digests import walk_tree
from worldsize.spec.load import from_document
from worldsize.spec.model import Spec
from wschampion.champion import Version, find_champion
from wsshards.manifest import FEED_NAME

if TYPE_CHECKING:
    from azure.ai.ml import MLClient

_END_SECONDS, _POLL_SECONDS = 60.0, 2.0
_DIGITS = 16  # of a digest in a name
_STORE = re.compile(r"azureml://(?:[^?#]*/)?datastores/(?P<store>[^/]+)/paths/(?P<path>.*)", re.DOTALL)
_FOLDER = "hdi_isfolder"  # metadata of a folder, where storage has such
_ASSET = re.compile(r"azureml:(?P<name>[\w.-]+)(?:@latest|:(?P<version>[\w.-]+))")


class StoredFile(NamedTuple):
    """A file in storage."""

    size: int
    modified: float  # seconds since 1970


class Newest(Struct, frozen=True):
    """The data of one input as it is now."""

    digest: str  # of an asset, its name and version
    fault: str | None = None
    rows: int | None = None  # where they are counted
    places: tuple[str, ...] = ()  # of the files in a window


class WorkspaceSeen(Struct, frozen=True):
    """The facts of a workspace, and what they come from."""

    facts: Facts
    newest: Mapping[str, Newest]
    starts: Sequence[Start]
    jobs: Mapping[str, RemoteJob | None]  # the last ones of newer attempts
    model: str | None
    champion: Version | None


class WorkspaceWorld:
    """A workspace in Azure, and the folder of the pipeline that is trained there."""

    def __init__(
        self,
        rest: Rest,
        retrained: Retrained,
        folder: Path,
        now: float,
        *,
        mounts: Mapping[str, Path],
        look: str | None,
    ) -> None:
        self.rest, self.retrained, self.folder, self.now = rest, retrained, folder, now
        self.mounts, self.look = mounts, look
        self.spec = _read_spec(retrained)
        policy = require_policy(self.spec)
        # A job that waits costs money: what is queued here, the next firing finds.
        self.policy = replace(policy, overlap="skip") if policy.overlap == "queue" else policy

    @cached_property
    def client(self) -> MLClient:
        """The client that submits."""
        return make_client(self.rest.names, self.rest.credential)

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Two looks may act at once: what they submit is the same."""
        yield True

    def see(self, *, looking: bool) -> WorkspaceSeen:
        """Find what the workspace has, and the newest data."""
        return _see(self, looking=looking)

    def act(self, seen: WorkspaceSeen, action: Action) -> Outcome | None:
        """Submit or cancel a job; its verdict is for a later look to find."""
        if action.kind == "end":
            assert action.run is not None
            return None if _end(self, action.run) else Outcome("wait", action.reason)
        if action.kind not in ("train", "continue"):
            return None
        name = _train(self, seen, action)
        reason = f"{action.reason} (job {name})"
        return Outcome("train", reason, _describe(seen.champion), model=seen.model)

    def describe(self, seen: WorkspaceSeen, action: Action) -> Outcome:
        """How a look ends that submits nothing."""
        return Outcome(action.kind, action.reason, _describe(seen.champion), model=seen.model)

    def mark_told(self, seen: WorkspaceSeen, cause: str, /) -> bool:
        """Whether a notice is new at this firing: it is given by the first look after its cause."""
        topic, newest = cause.partition(":")[0], seen.facts.newest()
        if topic == "stale":
            return seen.facts.firings == self.policy.stale_after
        if topic == "stopped" or newest is None:
            return True
        return (count_firings(self.spec.schedule, newest.ended, self.now) or 0) <= 1


def _describe(champion: Version | None) -> dict[str, Any] | None:
    return None if champion is None else {"version": champion.version}


def _read_spec(retrained: Retrained) -> Spec:
    spec, problems = from_document(yaml.load(f"{retrained.name}.yml", retrained.spec))
    if spec is None:
        raise RetrainError(problems[0].message if problems else "the spec cannot be read", "compile it again")
    return spec


def look(spec: Path, rest: Rest, *, now: float, notify: Callable[[Notice], None] = lambda _: None) -> Outcome:
    """Look at a spec in a workspace as its scheduled job does, and take at most one action.

    Raises:
        SpecError: The spec has errors.
        RetrainError: It has no ``retrain:``.
        OSError: A file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="worldsize-") as temporary:
        compiled = api.compile(spec, Path(temporary) / "pipeline")
        assert compiled.planned is not None
        require_policy(compiled.planned.spec)
        files = {name: compiled.folder / name for name in compiled.files}
        retrained = describe_retrained(compiled.planned, compiled.plan, files)
        world = WorkspaceWorld(rest, retrained, compiled.folder, now, mounts={}, look=None)
        return take_look(world, world.policy, now, notify)


def look_from(
    pipeline: Path, *, now: str | None, data: Mapping[str, str], say: Callable[[str], None]
) -> tuple[int, dict[str, Any]]:
    """Look as the component `look` does; the exit status, and the answer as `--json` has it.

    Args:
        pipeline: A folder that a spec was compiled into.
        now: The time of the look, by default the clock's.
        data: The mounted folder of each input.
        say: Shows a line.
    """
    try:
        moment = datetime.now(timezone.utc) if now is None else _parse_moment(now)
        retrained = msgspec.json.decode(untrusted.read_bytes(pipeline / RETRAINED), type=Retrained)
        mounts, job = {name: Path(path) for name, path in data.items()}, os.environ.get("AZUREML_ROOT_RUN_ID")
        with explain_errors():
            rest = Rest(find_workspace())
            world = WorkspaceWorld(rest, retrained, pipeline, moment.timestamp(), mounts=mounts, look=job)
            outcome = take_look(world, world.policy, world.now, lambda notice: say(f"notice: {notice.text}"))
    except HelpfulError as error:
        say(f"error: {error}" + (f"\nhelp: {error.help}" if error.help else ""))
        return 1, to_builtins(Outcome("stop", str(error)))
    say(f"{outcome.action}: {outcome.reason}")
    return int(outcome.action == "stop"), to_builtins(outcome)


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise RetrainError(f"`{text}` is not a time such as `2026-03-02T03:00Z`") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def _see(world: WorkspaceWorld, *, looking: bool) -> WorkspaceSeen:
    starts = list_starts(world.rest, world.retrained.name)
    newest = {watched.name: _find_newest(world, watched) for watched in world.retrained.watched}
    pairs = read_attempts(world.rest, starts, world.retrained)
    successes = [(attempt, job) for attempt, job in pairs if attempt.state == "finished"]
    promotion: Mapping[str, Any] = {}
    if successes and (job := successes[-1][1]) is not None:
        promotion = _read_promotion(world, job)
        pairs[pairs.index(successes[-1])] = (add_verdict(successes[-1][0], promotion or None), job)
    before = next((start.rows for start in starts if successes and start.name == successes[-1][0].run), {})
    new_rows = {
        name: max(0, found.rows - before.get(name, 0))
        for name, found in newest.items()
        if found.rows is not None and (not successes or name in before)
    }
    since = successes[-1][0].firing if successes else starts[0].firing if starts else None
    facts = Facts(
        Fingerprint(world.retrained.code, {name: found.digest for name, found in newest.items()}),
        tuple(attempt for attempt, _ in pairs),
        looking=looking,
        feed_faults=tuple(found.fault for found in newest.values() if found.fault is not None),
        new_rows=new_rows,
        firings=None if since is None else count_firings(world.spec.schedule, since, world.now),
    )
    model = promotion.get("name")
    champion = find_champion(WorkspaceRegistry(world.rest).versions(model)) if model else None
    return WorkspaceSeen(facts, newest, starts, {attempt.run: job for attempt, job in pairs}, model, champion)


def _read_promotion(world: WorkspaceWorld, job: RemoteJob) -> Mapping[str, Any]:
    """What the step `promote` of a job has written."""
    step = job.steps.get(world.retrained.verdict)
    if step is None or step.id is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="worldsize-") as folder, quiet():
        with contextlib.redirect_stdout(io.StringIO()):
            world.client.jobs.download(step.id, output_name="promotion", download_path=folder)
        path = next(Path(folder).rglob("promotion.json"), None)
        return (read_json(path) if path is not None else None) or {}


def _find_newest(world: WorkspaceWorld, watched: Watched) -> Newest:
    """The data of an input now: the newest version of an asset, or the files of a folder."""
    asset = _ASSET.fullmatch(watched.path)
    if asset is not None:
        version = asset["version"]
        if version is None:
            with quiet():
                version = world.client.data.get(asset["name"], label="latest").version
        return Newest(f"azureml:{asset['name']}:{version}")
    if watched.is_mounted:
        return _list_newest(world, watched)
    if classify(watched.path) != "local":
        return Newest(watched.path)  # an address that always means the same
    text = f"`{watched.name}` is on the machine of the spec, where a job in Azure does not see it"
    return Newest("", f"{text}: give a folder of a datastore or a data asset instead of `{watched.path}`")


def _list_newest(world: WorkspaceWorld, watched: Watched) -> Newest:
    """The files of a mounted folder, or those that its storage lists."""
    name, mount = watched.name, world.mounts.get(watched.name)
    try:
        files = _list_mounted(mount) if mount is not None else _list_stored(world.client, watched.path)
    except OSError as error:
        return Newest("", f"`{name}` cannot be read: {describe_os_error(error, file=True)}")
    rule = world.policy.data.get(name, DataPolicy())
    if files is None or (mount is None and rule.window is not None):
        return Newest("", f"`{name}` can be read by the scheduled job only, which mounts it")
    visible = {place: file for place, file in files.items() if not data.is_hidden(place)}
    modified = {place: file.modified for place, file in visible.items()}
    places, fault = data.select_files(name, watched.path, modified, rule, world.now)
    if fault is not None:
        return Newest("", fault)
    listed = sorted((place, visible[place].size, int(visible[place].modified)) for place in places)
    digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()
    rows = None
    if rule.minimum_new_rows and mount is not None:
        counts = [data.count_file(mount / place if place else mount) for place in places]
        rows = None if None in counts else sum(count or 0 for count in counts)
    return Newest(digest, None, rows, tuple(places) if rule.window is not None else ())


def _list_stored(client: MLClient, uri: str) -> Mapping[str, StoredFile] | None:
    """The files below a path in a datastore, by their places in it; None for an address of another kind."""
    match = _STORE.fullmatch(uri)
    if match is None:
        return None
    with quiet():
        from azure.ai.ml._artifacts._artifact_utilities import get_datastore_info
        from azure.storage.blob import ContainerClient

        info = get_datastore_info(client.datastores, match["store"])
        account = info["account_url"].replace(".dfs.", ".blob.", 1)  # both serve the same files
        container = ContainerClient(account, info["container_name"], credential=info["credential"])
        prefix, files = match["path"].strip("/"), {}
        with container:
            for blob in container.list_blobs(name_starts_with=prefix or None, include=["metadata"]):
                place = blob.name.removeprefix(prefix) if prefix else f"/{blob.name}"
                if place[:1] in ("", "/") and _FOLDER not in (blob.metadata or {}):
                    files[place[1:]] = StoredFile(blob.size, blob.last_modified.timestamp())
    return files


def _list_mounted(mount: Path) -> dict[str, StoredFile]:
    return {
        entry.place: StoredFile(entry.status.st_size, entry.status.st_mtime)
        for entry in walk_tree(mount)
        if entry.kind == "file" and entry.status is not None
    }


def _train(world: WorkspaceWorld, seen: WorkspaceSeen, action: Action) -> str:
    """Submit a job that trains, or that continues another; its name."""
    fingerprint, attempt = seen.facts.fingerprint, None
    rows: Mapping[str, int] = {
        key: found.rows for key, found in seen.newest.items() if found.rows is not None
    }
    if action.kind == "continue":
        continued = next(start for start in seen.starts if start.name == action.run)
        fingerprint, attempt, rows = continued.fingerprint, continued.attempt, continued.rows
    data_paths = {}
    for watched in world.retrained.watched:
        path = _refer(world, watched, fingerprint.data.get(watched.name, ""))
        if action.kind == "train":
            _register(world, watched, seen.newest[watched.name], path)
        data_paths[watched] = path
    overrides = _override(world, seen, data_paths)
    if attempt is not None:
        overrides += _resume(world, seen, attempt)
    number = 1 + sum(start.fingerprint == fingerprint for start in seen.starts)
    name = f"{_name_asset(world.retrained.name)}-{fingerprint.digest}-{number}"
    start = Start(attempt or name, fingerprint, world.now, rows)
    again = attempt is None and world.policy.when == "always"
    _submit(world, name, overrides, write_tags(start, world.retrained.name, action.reason, world.look), again)
    return name


def _name_asset(*parts: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", "-".join(parts))


def _refer(world: WorkspaceWorld, watched: Watched, digest: str) -> str:
    """How a training names its data: by a version of an asset for each content, so that reuse is right."""
    if not watched.is_mounted or watched.type not in ("uri_file", "uri_folder"):
        return watched.path if watched.is_mounted else digest
    return f"azureml:{_name_asset(world.retrained.name, watched.name)}:{digest[:_DIGITS]}"


def _register(world: WorkspaceWorld, watched: Watched, newest: Newest, reference: str) -> None:
    """Make the asset of what is read: of a window, it is a copy of its files."""
    match = _ASSET.fullmatch(reference)
    if match is None or reference == newest.digest:
        return
    from azure.ai.ml.entities import Data

    with tempfile.TemporaryDirectory(prefix="worldsize-") as folder, quiet():
        path = watched.path
        if newest.places:
            path = folder
            for place in newest.places:
                target = Path(folder, place)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(world.mounts[watched.name] / place, target)
        asset = Data(name=match["name"], version=match["version"], type=watched.type, path=path)
        asset.description = f"what `{watched.name}` of {world.retrained.name} was when it was trained"
        with _unless_there(world, f"/data/{asset.name}/versions/{asset.version}"):
            world.client.data.create_or_update(asset)


@contextlib.contextmanager
def _unless_there(world: WorkspaceWorld, path: str) -> Iterator[None]:
    """Pass over a refusal to make what another look has made."""
    from azure.core.exceptions import HttpResponseError

    try:
        yield
    except HttpResponseError as error:
        try:
            world.rest.manage(path)
        except HttpResponseError:
            raise error from None


def _override(
    world: WorkspaceWorld, seen: WorkspaceSeen, paths: Mapping[Watched, str]
) -> list[dict[str, Any]]:
    """The inputs of the pipeline as they are now, in azure-ai-ml's form."""
    overrides = [{f"inputs.{name}": value} for name, value in world.retrained.inputs.items()]
    overrides += [{f"{_place_input(watched.name)}.path": path} for watched, path in paths.items()]
    return overrides + _hand_over_champion(world, seen)


def _hand_over_champion(world: WorkspaceWorld, seen: WorkspaceSeen) -> list[dict[str, Any]]:
    """The inputs that the champion gives: statistics of its feed, and its weights where the spec says so."""
    takers = world.retrained.initial if world.policy.from_champion else ()
    judges = world.retrained.judges if len(world.retrained.judges) == 1 else ()  # else another feed's
    if seen.champion is None or seen.model is None or not (takers or judges):
        return []
    with quiet():
        files = str(world.client.models.get(seen.model, seen.champion.version).path)
    overrides = [_give_data(f"{trainer}.{INITIAL}", "custom_model", files) for trainer in takers]
    statistics = f"{files.rstrip('/')}/{FEED_NAME}"
    if judges and _list_stored(world.client, statistics):
        overrides.append(_give_data(f"{judges[0]}.{REFERENCE}", "uri_file", statistics))
    return overrides


def _place_input(name: str) -> str:
    step, dot, port = name.rpartition(".")
    return f"jobs.{step}.inputs.{port}" if dot else f"inputs.{name}"


def _give_data(name: str, kind: str, path: str) -> dict[str, Any]:
    place = _place_input(name)
    return {f"{place}.type": kind, f"{place}.path": path}


def _resume(world: WorkspaceWorld, seen: WorkspaceSeen, attempt: str) -> list[dict[str, Any]]:
    """The newest checkpoints of the trainers that the attempt has not finished, where there are any."""
    overrides: list[dict[str, Any]] = []
    starts = [start for start in seen.starts if start.attempt == attempt]
    for trainer in world.retrained.resumed:
        for start in reversed(starts):
            job = seen.jobs.get(start.name) or read_job(world.rest, start.name)
            step = job.steps.get(trainer)
            if step is None or step.id is None:
                continue
            if step_state(step.run) in DONE:  # it is reused
                break
            uri = f"azureml://datastores/workspaceblobstore/paths/azureml/{step.id}/{CHECKPOINTS}/"
            if _list_stored(world.client, uri):
                overrides.append(_give_data(f"{trainer}.{RESUMED}", "uri_folder", uri))
                break
    return overrides


def _submit(
    world: WorkspaceWorld,
    name: str,
    overrides: Sequence[Mapping[str, Any]],
    tags: Mapping[str, str],
    again: bool,
) -> None:
    """Submit the pipeline, unless another look has done so under this name; ``again`` reuses no step."""
    with quiet():
        from azure.ai.ml import load_job

        job: Any = load_job(world.folder / "pipeline.yml", params_override=[dict(part) for part in overrides])
        job.name, job.tags = name, {**(job.tags or {}), **tags}
        if again:
            job.settings.force_rerun = True
        with _unless_there(world, f"/jobs/{quote(name)}"):
            world.client.jobs.create_or_update(job)


def _end(world: WorkspaceWorld, name: str) -> bool:
    """Cancel a job, and wait a moment for its end; False if it has not come."""
    with quiet():
        world.client.jobs.begin_cancel(name)
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        status = world.rest.manage(f"/jobs/{quote(name)}")["properties"]["status"]
        if status in ENDED:
            return True
        time.sleep(_POLL_SECONDS)
    return False

"""What a component uploads: secrets, repositories, environments, large folders and what cannot be copied."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from worldsize.azureml import environment, ignore, snapshot
from worldsize.azureml.copying import read_listed
from worldsize.azureml.model import Component, Field
from worldsize.azureml.references import exists, folder_of, local_path
from worldsize.azureml.snapshot import Part
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Problem
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import format_size
from worldsize.documents.yaml.nodes import Scalar
from worldsize.resolving.planned import Planned

REPOSITORIES = frozenset({".git", ".hg", ".svn"})
_ENVIRONMENTS = frozenset({".venv", "node_modules", ".tox", ".nox"})
_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})  # what only the root of an environment has
_KEY_NAMES = compile_later(
    r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|(?:.*\.)env(?:\.(?:local|prod(?:uction)?|dev(?:elopment)?|staging|test))?"
    r"|.*\.(?:pem|pfx|p12|ppk|jks|keystore|kdbx|publishsettings)|\.?(?:git-credentials|netrc|pgpass|pypirc|htpasswd)"
    r"|_netrc|\.(?:s3cfg|boto|databrickscfg|my\.cnf)|credentials(?:\.(?:json|csv|ya?ml|toml|ini))?"
    r"|secrets?\.(?:json|ya?ml|toml|ini|env)|client_secrets?.*\.json|kaggle\.json|kubeconfig|.*\.kubeconfig"
    r"|application_default_credentials\.json|service[_-]?account.*\.json|local\.settings\.json"
    r"|.*\.tfstate(?:\.backup)?|accesstokens\.json|azureprofile\.json|msal_token_cache\..*",
    re.IGNORECASE,
)
_KEY_FOLDERS = frozenset({".azure", ".aws", ".ssh", ".kube", ".gnupg", ".docker"})
_PRIVATE = b"PRIVATE KEY"
_PUBLIC = (b"BEGIN CERTIFICATE", b"BEGIN PUBLIC KEY", b"BEGIN TRUSTED CERTIFICATE")
_HEAD = 64 * 1024  # bytes of a file that may be a certificate that are read
_SHOWN = 3  # files with secrets that a message names
_LARGE = 50_000_000  # bytes
_LANGUAGES = {
    "python": (".py", ".json", ".toml", ".ipynb"),
    "shell": (".sh", ".bash", ".ps1", ".r", ".cfg", ".ini", ".txt", ".properties", ".in"),
    "command": (".yml", ".yaml"),
}
_LANGUAGE_OF = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
_OF_TESTS = compile_later(r"(?:^|/)(?:tests?|fixtures|mocks?)/|(?:^|/)(?:test_|conftest)[^/]*$|_test\.py$")
PASSWORD = compile_later(r"[\d!@#%^&*?+~]")  # in code, a password has more than letters
_LARGEST = 256 * 1024  # bytes of a file that is read; what is larger is data
_FILES = 200  # of one upload that are read


class UploadedItem(NamedTuple):
    """A file or folder of an upload."""

    place: str
    size: int


class Upload(NamedTuple):
    """A part of what a component uploads, where it is named, and the folder whose ignore file counts."""

    part: Part
    span: Span
    folder: Path


def find_parts(context: Tree, subject: Component | Planned) -> list[Upload]:
    """The uploads of a component, or those that a spec adds to one.

    What may not be copied, or has no end, is left out: it is reported as that.
    """
    return context.all_of(_find_uploads, subject)


def _find_uploads(context: Tree, subject: Component | Planned) -> Iterator[Upload]:
    for component in [subject] if isinstance(subject, Component) else _added(subject):
        fields = (component.code, component.additional_includes, component.environment)
        node = next((field.node for field in fields if field is not None and field.node is not None), None)
        if node is None:
            continue
        folder = folder_of(node)
        parts, _ = snapshot.list_uploads(component, folder, context.files)
        code = next((part.path for part in parts if part.key == "code"), folder)
        for part in parts:
            refused = part.listing.outside or part.listing.exceeded
            if part.span is not None and not refused and not context.built_in(part.path):
                root = part.path if part.key == "build.path" else code
                yield Upload(part, part.span, root if root.is_dir() else root.parent)


def _added(planned: Planned) -> Iterator[Component]:
    """The code that steps of a spec add to a component, as a component of its own."""
    for step in planned.spec.steps.values():
        if step.uses is not None and step.code is not None:
            code = Field(step.code.value, step.code.span, step.code.key_span, step.code.node)
            yield Component(None, "command", None, None, {}, {}, code=code)


def check_upload(context: Tree, upload: Upload) -> Iterator[Problem]:
    folders = {place for place in _folders(upload.part) if PurePosixPath(place).name in REPOSITORIES}
    repositories, environments = _sizes(upload.part, folders), _find_environments(upload.part)
    apart = {item.place for item in (*repositories, *environments)}
    yield from _check_secrets(upload, apart)
    yield from _check_folders(upload, repositories, environments)
    yield from _check_size(upload, apart)
    yield from _check_entries(upload)


def _check_secrets(upload: Upload, apart: set[str]) -> Iterator[Problem]:
    part, span, folder = upload
    places = _find_secrets(part, apart)
    if places:
        size = format_size(sum(part.listing.sizes[place] for place in places))
        listed = ", ".join(f"`{place}`" for place in places[:_SHOWN])
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        holds, is_ = ("holds", "is") if len(places) == 1 else ("hold", "are")
        what = f"which usually {holds} secrets, {is_} uploaded with `{_name(part.path)}`"
        help_ = _suggest_exclusion(folder, *places[:_SHOWN])
        yield Problem("secret-in-snapshot", span, f"{listed}{more} ({size}), {what}", help_)


def _check_folders(
    upload: Upload, repositories: list[UploadedItem], environments: list[UploadedItem]
) -> Iterator[Problem]:
    part, span, folder = upload
    for slug, what, items in (
        ("repository-in-snapshot", "a repository", repositories),
        ("environment-in-snapshot", "installed packages", environments),
    ):
        for item in items:
            size = format_size(item.size)
            message = f"`{item.place}` ({what}, {size}) is uploaded with `{_name(part.path)}`"
            yield Problem(slug, span, message, _suggest_exclusion(folder, item.place))


def _check_size(upload: Upload, apart: set[str]) -> Iterator[Problem]:
    part, span, folder = upload
    sizes = {place: size for place, size in part.listing.sizes.items() if not _is_below(place, apart)}
    total = sum(sizes.values())
    if total > _LARGE:
        heads = Counter[str]()
        for place, size in sizes.items():
            heads[place.split("/", 1)[0]] += size
        largest, size = max(heads.items(), key=lambda pair: (pair[1], pair[0]))
        message = (
            f"{format_size(total)} are uploaded with `{_name(part.path)}`, more than"
            f" {format_size(_LARGE)}: `{largest}` has {format_size(size)} of it"
        )
        yield Problem("snapshot-large", span, message, _suggest_exclusion(folder, largest))


def _check_entries(upload: Upload) -> Iterator[Problem]:
    part, span, folder = upload
    left_out = part.listing.left_out
    if left_out:
        place, what = next(iter(sorted(left_out.items())))
        more = f", and so are {len(left_out) - 1} more such entries" if len(left_out) > 1 else ""
        message = f"`{place}` in `{_name(part.path)}` is {what}, which cannot be uploaded{more}"
        help_ = f"remove it, or {_suggest_exclusion(folder, place)}"
        yield Problem("entry-not-copied", span, message, help_)


def _find_environments(part: Part) -> list[UploadedItem]:
    """The outermost folders of installed packages of an upload."""
    places = {place for place in _folders(part) if PurePosixPath(place).name in _ENVIRONMENTS}
    for place in (*part.listing.files, *_folders(part)):
        path = PurePosixPath(place)
        if path.name in _MARKS and len(path.parts) > 1:
            places.add(path.parent.as_posix())
    return _sizes(part, places)


def _find_secrets(part: Part, apart: set[str]) -> list[str]:
    """The files of an upload that usually hold secrets, outside of the folders ``apart``."""
    return [
        place
        for place, path in part.listing.files.items()
        if part.listing.sizes[place] and not _is_below(place, apart) and is_secret_file(place, path)
    ]


def _suggest_exclusion(folder: Path, *names: str) -> str:
    """The help for excluding something: the ignore file to edit, since only one of a folder counts."""
    file = ignore.find_ignore_file(folder)
    listed = ", ".join(f"`{name}`" for name in names)
    name = file.name if file is not None else ignore.NAMES[0]
    place = (Path(folder.name) / name).as_posix()
    return f"add {listed} to `{place}`: Azure ML does not read ignore files of parent folders"


def _name(path: Path) -> str:
    return path.name or "."


def _folders(part: Part) -> set[str]:
    """The places of all folders that files lie in."""
    folders: set[str] = set()
    for place in part.listing.files:
        parent = place.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    return folders


def _sizes(part: Part, places: set[str]) -> list[UploadedItem]:
    """The outermost of the places, each with the bytes of all files below it."""
    outer = {place for place in places if not _is_below(place.rpartition("/")[0], places)}
    total = dict.fromkeys(sorted(outer), 0)
    for place, size in part.listing.sizes.items():
        if (above := _above(place, outer)) is not None:
            total[above] += size
    return [UploadedItem(place, size) for place, size in total.items()]


def _above(place: str, places: set[str]) -> str | None:
    """The place that equals a path or contains it."""
    while place:
        if place in places:
            return place
        place = place.rpartition("/")[0]
    return None


def _is_below(place: str, places: set[str]) -> bool:
    return bool(places) and _above(place, places) is not None


def is_secret_file(place: str, path: Path) -> bool:
    """Whether a file usually holds secrets, by its name."""
    names = PurePosixPath(place).parts
    name = names[-1].lower()
    if any(folder in _KEY_FOLDERS for folder in names[:-1]):
        return not name.endswith(
            (".pub", ".md", ".txt", "known_hosts", ".dockerfile", ".yml", ".yaml", ".sh")
        )
    if _KEY_NAMES.fullmatch(name) is not None:
        return not name.endswith(".pem") or not _is_public(path)
    return name.endswith(".key") and _PRIVATE in _head(path)


def _is_public(path: Path) -> bool:
    """Whether a file holds only certificates or public keys."""
    head = _head(path)
    return _PRIVATE not in head and any(mark in head for mark in _PUBLIC)


def _head(path: Path) -> bytes:
    try:
        return read_listed(path, _HEAD)
    except OSError:
        return b""


def find_texts(context: Tree, upload: Upload) -> list[tuple[Source, str]]:
    """The texts of an upload, with the language by which their assignments are read."""
    return context.all_of(_find_texts, upload.part)


def _find_texts(context: Tree, part: Part) -> Iterator[tuple[Source, str]]:
    listing, read = part.listing, 0
    for place, path in listing.files.items():
        language = _find_language(place)
        if language is None or not 0 < listing.sizes[place] <= _LARGEST or _OF_TESTS.search(place):
            continue
        source = (
            context.text(os.path.relpath(path)) if read < _FILES and not is_secret_file(place, path) else None
        )
        if source is not None:
            read += 1
            yield source, language


def find_conda_files(context: Tree, component: Component) -> Iterator[Source]:
    """The conda files that an environment names, which may lie outside the code."""
    field = component.environment
    if field is None or field.node is None:
        return
    for reference in environment.list_references(field, folder_of(field.node)):
        is_conda = reference.key == "conda_file" and not context.is_folder(reference.path)
        source = context.text(os.path.relpath(reference.path)) if is_conda else None
        if source is not None:
            yield source


def _find_language(place: str) -> str | None:
    path = PurePosixPath(place)
    return "shell" if "dockerfile" in path.name.lower() else _LANGUAGE_OF.get(path.suffix.lower())


def check_code_outside_tree(context: Tree, component: Component) -> Iterator[Finding]:
    node = component.code.node if component.code is not None else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    path = local_path(node.value, folder_of(node))
    if path is not None and exists(path) and not context.inside(path):
        message = f"`code` is `{node.value}`, which is outside the repository"
        yield Finding(node.span, message, "move it into the repository, next to this file")

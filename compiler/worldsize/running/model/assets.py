"""Maps references to a workspace, a registry, a datastore or the web to paths of this machine.

Nothing is downloaded: ``assets:`` in ``worldsize.yml``, or the option ``--map``, gives the local paths of the
data, components, environments and models that jobs refer to; else the YAML file that declares the asset does.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from msgspec import Struct

from worldsize.azureml.fields import read_text
from worldsize.azureml.references import classify, exists, is_file, is_folder, local_path, normalise
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import shorten
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.yaml import Mapping as YamlMapping
from worldsize.documents.yaml import Scalar
from worldsize.documents.yaml.nodes import Node
from worldsize.running.model.folder import is_served_job, show_path

if TYPE_CHECKING:
    from worldsize.documents.yaml import Document
    from worldsize.facts.vm_sizes import Learned

EXAMPLES = {"component": "component.yml", "environment": "conda.yml"}  # the file for an asset

_NAMED = re.compile(r"azureml:(?P<name>[^/:@]+)(?::(?P<version>[^/:@]+)|@(?P<label>[^/:@]+))?\Z")
_IN_WORKSPACE = re.compile(
    r"(?:azureml:)?/{1,2}(?:subscriptions|locations)/.*?/workspaces/[^/]+/"
    r"(?:datastores/(?P<store>[^/]+)(?:/paths)?(?P<rest>(?:/.*)?)"
    r"|(?P<kind>[a-z]+)/(?P<name>[^/]+)(?:/(?P<by>versions|labels)/(?P<version>[^/]+))?)\Z",
    re.IGNORECASE,
)
_STORE = re.compile(r"azureml://datastores/[^/]+\Z")
_WRITTEN = "%/:?#[]@!$&'()*+,;=~"  # in an address, apart from letters, digits and `_.-`
_VERSION = re.compile(r"/?(?:versions|labels)/[^/]+\Z")
_BLOB = re.compile(
    r"https?://(?P<host>[^/@]+\.blob\.[^/@]+)/(?P<container>[^/?#]+)(?P<rest>/[^?#]*)?(?:[?#].*)?\Z"
    r"|wasbs?://(?P<container2>[^/@]+)@(?P<host2>[^/]+)(?P<rest2>/.*)?\Z",
    re.IGNORECASE | re.DOTALL,
)

NOT_ASSETS = frozenset({"$schema", "compute", "default_compute"})  # keys whose value is not an asset


class AssetEntry(Struct, frozen=True):
    """One line of the map, and its position (for ``--map`` the option itself)."""

    reference: str
    path: Path
    span: Span


class _Declared(NamedTuple):
    """An asset as a file of the project declares it, for `az ml … create`."""

    file: str
    version: str | None
    path: Path | None  # of its data; an environment or component is its file


class AssetMap:
    """Maps references, as jobs write them, to paths of this machine.

    Args:
        entries: Those of the project; of two for the same reference the last counts.
        options: Those of the call, which override all of ``entries``, even more specific ones.
        sources: The texts that contain ``entries``, for the lines that a problem shows.
        learned: The VM sizes that the project describes.
        tree: The folder whose asset files count where the map has no entry.
        in_workspace: Whether the job is the local workspace's, where assets are registered.
    """

    def __init__(
        self,
        entries: Iterable[AssetEntry] = (),
        options: Iterable[AssetEntry] = (),
        sources: Sources | None = None,
        *,
        learned: Learned | None = None,
        tree: str | None = None,
        in_workspace: bool = False,
    ) -> None:
        self.sources: Sources = sources or {}
        self.learned: Learned = learned or {}
        self.notices: list[str] = []
        self._tree = tree
        self._declared: dict[str, Path | None] = {}  # what asset files say of references, by reference
        self._in_workspace = in_workspace
        self._tiers = [{_make_key(entry.reference): entry for entry in tier} for tier in (options, entries)]
        self._broken: dict[Span, Problem] = {}
        self._resolved: dict[Path, tuple[AssetEntry, str]] = {}  # the entries that were used, by path
        for entry in self._tiers[0].values():
            if classify(entry.reference) == "local":
                message = f"`{shorten(entry.reference)}` is not a reference to an asset or address"
                help_ = "map `azureml:name:version`, `azureml://datastores/…` or a web address, as in jobs"
                self._broken[entry.span] = Problem("run-refused", entry.span, message, help_)

    @property
    def problems(self) -> list[Problem]:
        """The problems of entries that were used and are wrong, once each at their own position."""
        return list(self._broken.values())

    @property
    def paths(self) -> list[Path]:
        """The paths of the entries that exist."""
        return [entry.path for tier in self._tiers for entry in tier.values() if exists(entry.path)]

    def local(self, text: str) -> Path | None:
        """The path of a reference, or None if the map has no entry for it.

        A path that does not exist is returned too, and added to :attr:`problems`, so that the caller need
        not report it.
        """
        if classify(text) == "local":
            return None
        for tier in self._tiers:
            for key, rest in _list_keys(text):
                entry = tier.get(key)
                if entry is not None:
                    return self._resolve_entry(entry, text, rest)
        reference = canonical(text)
        if reference not in self._declared:
            self._declared[reference] = self._find_declared(reference)
        return self._declared[reference]

    def _find_declared(self, reference: str) -> Path | None:
        """The local path of an asset that exactly one file of the project declares."""
        named = _NAMED.match(reference)
        if self._tree is None or named is None or not (named["version"] or named["label"] == "latest"):
            return None
        declared = [
            asset
            for asset in _read_declared(self._tree, named["name"])
            if named["version"] in (None, asset.version)
        ]
        if len(declared) != 1 or declared[0].path is None or not exists(declared[0].path):
            return None
        file, path = declared[0].file, declared[0].path
        source = "" if path == Path(file).absolute() else f", as `{file}` declares"
        self.notices.append(f"`{reference}` is `{show_path(path)}`{source}")
        return path

    def check_type(self, path: Path, type_: str, what: str) -> None:
        """Add to :attr:`problems` an entry that maps to a file instead of a folder, or the reverse.

        Only a path from :meth:`local` is checked. ``what`` describes the data.
        """
        entry, text = self._resolved.get(path, (None, ""))
        if entry is None or not (is_folder(path) if type_ == "uri_file" else is_file(path)):
            return
        what_it_is, help_ = {
            "uri_file": ("a folder", "map it to the file itself"),
            "uri_folder": ("a file", "map it to a folder, or declare the input as `type: uri_file`"),
        }.get(type_, ("", ""))
        if what_it_is:
            mapped = f"`{shorten(text)}` is mapped to `{show_path(path)}`"
            message = f"{mapped}, {what_it_is}, but {what} is a `{type_}`"
            self._broken.setdefault(entry.span, Problem("run-refused", entry.span, message, help_))

    def report_unnamed(self, texts: Collection[str]) -> list[Problem]:
        """The entries of the call for references that are not among ``texts``, those of the pipeline."""
        keys = {key for text in texts for key, _ in _list_keys(text)}
        advice = "see its `azureml:` references" if texts else "it has no references: remove `--map`"
        return [
            Problem(
                "run-refused",
                entry.span,
                f"the pipeline does not use `{shorten(entry.reference)}`",
                did_you_mean(entry.reference, [*map(shorten, texts)]) or advice,
            )
            for key, entry in self._tiers[0].items()
            if key not in keys and entry.span not in self._broken
        ]

    def missing(self, text: str, what: str = "data", type_: str | None = None) -> str:
        """The help of a diagnostic about a reference that :meth:`local` does not know.

        Args:
            text: The reference.
            what: ``data``, ``component`` or ``code``.
            type_: The type of the data, such as ``uri_file``.
        """
        text = canonical(text)  # the name of an asset, not its long id
        if self._in_workspace and (named := _NAMED.match(text)) is not None and what != "code":
            return _explain_registering(named, what, type_)
        path = f"./{EXAMPLES.get(what) or _find_last_name(text) or what}"
        address = text if _is_http(text) else _find_twin(text)
        one = address is not None and not text.endswith("/") and "*" not in text  # curl fetches no folder
        fetch = ""
        if address and one:
            fetch = f"fetch it with `curl -fLo {shlex.quote(path)} {shlex.quote(address)}`, then "
        option = shlex.quote(f"{text}={path}")
        line = f"{_yaml_key(text)}: {path}"
        if self._in_workspace:
            return f"{fetch}write `{line}` under `assets:` of the `worldsize.yml` where the workspace started"
        copy = "" if fetch else " with the path of your copy"
        return f"{fetch}write `{line}` under `assets:` of `worldsize.yml`{copy}, or add `--map {option}`"

    def _resolve_entry(self, entry: AssetEntry, text: str, rest: str) -> Path | None:
        path = normalise(entry.path / rest)
        root = normalise(entry.path)
        if path != root and not path.is_relative_to(root):
            return None
        if not exists(path):
            message = f"`{shorten(text)}` is mapped to `{show_path(path)}`, which does not exist"
            help_ = "put it there, or correct the path"
            self._broken.setdefault(entry.span, Problem("run-refused", entry.span, message, help_))
        self._resolved[path] = (entry, text)
        return path


def _read_declared(tree: str, name: str) -> Iterator[_Declared]:
    """The data, models, environments and components of a name that the files of a project declare."""
    from worldsize.checking import discover  # as for the settings

    for file, kind, root in discover.find_declared(tree, name):
        is_data = kind in ("data", "model")
        if not (is_data or kind == "environment" or kind.endswith("-component")):
            continue
        place, version = read_text(root, "path"), root.get("version")
        path = local_path(place, Path(file).absolute().parent) if is_data and place else None
        yield _Declared(
            file,
            version.text if isinstance(version, Scalar) else None,
            path if is_data else Path(file).absolute(),
        )


def parse_map_option(text: str) -> tuple[str, str]:
    """Reference and path of ``--map REFERENCE=PATH``.

    Raises:
        ValueError: It does not have this form.
    """
    cuts = [index for index, letter in enumerate(text) if letter == "="]
    if not cuts or classify(text) == "local":
        example = "an example is `azureml:cifar@latest=./data/cifar`"
        raise ValueError(f"`{shorten(text)}` is not `REFERENCE=PATH`; {example}")
    # Both sides may contain `=`: `?a=b` of an address, `year=2024` of a folder.
    usual = cuts[-1] if classify(text) == "web" else cuts[0]
    cut = next((cut for cut in cuts if text[cut + 1 :] and exists(Path(text[cut + 1 :]))), usual)
    reference, path = text[:cut], text[cut + 1 :]
    if not reference or not path:
        raise ValueError(f"`{shorten(text)}` has nothing before or after `=`")
    return reference, path


def read_asset_map(
    target: Path, mapped: Mapping[str, str] | None = None, read: dict[Path, Document] | None = None
) -> AssetMap:
    """Read the map for a spec or job file: its project's ``worldsize.yml``, and the options of the call.

    ``read`` holds documents that are parsed already, by resolved path; the settings are added.
    """
    from worldsize.checking import discover, settings
    from worldsize.documents import yaml  # the parser of `--map` does not need it

    options = [
        AssetEntry(name, Path(path).absolute(), Span(f"--map {shorten(f'{name}={path}')}", 1, 1, 1, 1))
        for name, path in (mapped or {}).items()
    ]
    served = is_served_job(target.absolute())
    (project,) = discover.group_projects([target])
    tree = None if served else discover.find_project(target)
    if project.settings is None:
        return AssetMap(options=options, tree=tree, in_workspace=served)
    key, read = Path(os.path.realpath(project.settings)), {} if read is None else read
    document = read.get(key) or yaml.load(Path(os.path.relpath(project.settings)))
    read[key], described = document, settings.read_settings(document)
    entries = [AssetEntry(asset.reference, asset.path.absolute(), asset.span) for asset in described.assets]
    sources = {document.path: document.source}
    return AssetMap(entries, options, sources, learned=described.vm_sizes, tree=tree, in_workspace=served)


def _list_keys(text: str) -> Iterator[tuple[str, str]]:
    """The keys that match a reference, the most specific first, and the rest of the reference."""
    twin = _find_twin(text)
    for spelling in dict.fromkeys(map(_make_key, (text, canonical(text), twin or text))):
        yield spelling, ""
        named = _NAMED.match(spelling)
        if named is not None and (named["version"] or named["label"]):
            yield f"azureml:{named['name']}", ""
        if "://" not in spelling:
            continue
        plain = re.split(r"[?#]", spelling, maxsplit=1)[0].rstrip("/") if _is_http(spelling) else spelling
        yield plain, ""
        scheme = plain.index("://") + len("://")
        end = plain.rfind("/", scheme)
        while end > 0:
            rest = _VERSION.sub("", plain[end + 1 :]) if "://registries/" in plain else plain[end + 1 :]
            yield plain[:end], unquote(rest) if _is_http(plain) else rest
            end = plain.rfind("/", scheme, end)


def _make_key(reference: str) -> str:
    """A reference as a key of the map: without a final slash, the root of a datastore as its path."""
    text = reference.strip().rstrip("/")
    if text.startswith("azureml:azureml:"):
        text = text.removeprefix("azureml:")
    if _is_http(text):  # a blank may be written as it is
        return quote(text, safe=_WRITTEN)
    return f"{text}/paths" if _STORE.match(text) else text


def canonical(reference: str) -> str:
    """The short form of a full id or address in a workspace; anything else as it is."""
    match = _IN_WORKSPACE.match(_make_key(reference))
    if match is None:
        return reference
    if match["store"]:
        return f"azureml://datastores/{match['store']}/paths{match['rest']}".rstrip("/")
    sign = "@" if (match["by"] or "").lower() == "labels" else ":"
    return f"azureml:{match['name']}" + (f"{sign}{match['version']}" if match["version"] else "")


def _find_twin(text: str) -> str | None:
    """The other address of a blob: that of HTTP for Hadoop's, and the reverse; None for anything else."""
    match = _BLOB.match(text)
    if match is None:
        return None
    if match["host"]:
        rest = unquote(match["rest"] or "")
        return f"wasbs://{match['container']}@{match['host']}{rest}"
    return f"https://{match['host2']}/{match['container2']}{quote(match['rest2'] or '', safe='/*')}"


def _find_last_name(text: str) -> str:
    named = _NAMED.match(text)
    if named is not None:
        return named["name"]
    return _VERSION.sub("", text.partition("?")[0].rstrip("/")).rpartition("/")[2]


def _explain_registering(named: re.Match[str], what: str, type_: str | None) -> str:
    if what == "component":
        return (
            "register it in the workspace: `az ml component create -f component.yml`, or in Python"
            ' `client.components.create_or_update(load_component("component.yml"))`'
        )
    is_model = (type_ or "").endswith("_model")
    type_ = type_ or "uri_folder"
    name, version = named["name"], named["version"]
    options = f"--name {name}" + (f" --version {version}" if version else "")
    arguments = f'name="{name}", ' + (f'version="{version}", ' if version else "")
    kind, call = ("model", "models.create_or_update(Model")
    if not is_model:
        kind, call = ("data", "data.create_or_update(Data")
    return (
        f"register it in the workspace: `az ml {kind} create {options} --type {type_} --path ./{name}`,"
        f' or in Python `client.{call}({arguments}type="{type_}", path="./{name}"))`,'
        " with the path of your file or folder"
    )


def _is_http(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _yaml_key(text: str) -> str:
    """A reference as a key of YAML, quoted if necessary."""
    plain = ": " not in text and " #" not in text and not text.endswith(":") and text[0].isalnum()
    return text if plain else "'" + text.replace("'", "''") + "'"


def find_references(roots: Iterable[Node | None]) -> set[str]:
    """All texts that are references to other places; visits each node once."""
    waiting, met, references = list(roots), set[int](), set[str]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, Scalar):
            references |= {node.text} if classify(node.text) != "local" else set()
        elif isinstance(node, YamlMapping):
            waiting += [value for key, value in node.items() if key.text not in NOT_ASSETS]
        else:
            waiting += node.items
    return references

"""The folder whose files belong together: its files, each read once, its clusters, VM sizes and prices."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import snapshot
from worldsize.azureml.component import load_component
from worldsize.azureml.copying import CopyAccess, are_equal
from worldsize.azureml.files import Files
from worldsize.azureml.model import Cluster, Component
from worldsize.base import limits, resources, untrusted
from worldsize.base.limits import Budgets
from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.documents import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from worldsize.azureml.environment import Installed
    from worldsize.azureml.job import Compute
    from worldsize.facts.prices import PriceList
    from worldsize.facts.vm_sizes import Learned, VmSize

T = TypeVar("T")


class Tree(Struct):
    """What is read. Files outside ``root`` do not exist here; each is read once."""

    root: Path
    allowed: tuple[Path, ...] = ()  # further folders that may be read
    clusters: dict[str, Cluster] = field(default_factory=dict)
    vm_sizes: Learned = field(default_factory=dict)  # those that the project describes
    region: str | None = None  # where the project runs, if that is given
    prices_file: Path | None = None  # the prices that the project has read from Azure
    budgets: Budgets = field(default_factory=Budgets)
    files: Files = field(default_factory=Files)
    unreadable: dict[str, Problem] = field(default_factory=dict)  # files that a rule was to read, by path
    _contradicted: set[str] = field(default_factory=set)  # clusters of which two files differ
    _roots: tuple[str, ...] = ()  # links resolved
    _kinds: dict[str, str] = field(default_factory=dict)  # file or folder, by path
    _texts: dict[str, Source | None] = field(default_factory=dict)
    _memo: dict[tuple[Any, int], tuple[Any, Any]] = field(default_factory=dict)
    _by_key: dict[tuple[object, tuple[object, ...]], Any] = field(default_factory=dict)

    def once(self, work: Callable[[Self, Any], T], subject: object) -> T:
        """The result of ``work`` for a subject, calculated once for all rules."""
        return self._recall(work, subject, work)

    def all_of(self, work: Callable[[Self, Any], Iterable[T]], subject: object) -> list[T]:
        """The same of a generator: everything that it yields."""
        return self._recall(work, subject, lambda tree, item: list(work(tree, item)))

    def once_for(self, work: Callable[..., T], *key: object) -> T:
        """The same for equal arguments, which need not be the same object."""
        if (work, key) not in self._by_key:
            self._by_key[work, key] = work(self, *key)
        result: T = self._by_key[work, key]
        return result

    def _recall(self, work: object, subject: object, make: Callable[[Self, Any], T]) -> T:
        key = (work, id(subject))
        kept = self._memo.get(key)
        if kept is None:  # the subject is kept, so that its id stays its own
            kept = self._memo[key] = (subject, make(self, subject))
        result: T = kept[1]
        return result

    def inside(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path, symbolic links resolved, lies in the tree."""
        if not self._roots:
            self._roots = tuple(os.path.realpath(root) for root in (self.root, *self.allowed))
        real = self.files.real_paths.resolve(path)
        return any(_within(real, root) for root in self._roots)

    def readable(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file may be read: one of the tree, or of a built-in component."""
        return self.inside(path) or self.built_in(path)

    def built_in(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file is part of a built-in component. Those are checked where they are made."""
        return _within(self.files.real_paths.resolve(path), os.fspath(resources.components()))

    def is_built_in(self, component: Component | None) -> bool:
        """Whether a component is a built-in one, or the unchanged copy that a compiled pipeline has of it."""
        if component is None or component.path is None:
            return False
        return self.built_in(component.path) or self.is_built_in_copy(component)

    def is_built_in_copy(self, component: Component) -> bool:
        """Whether a component file of the tree is an unchanged copy of a built-in one."""
        return self.once(_is_unchanged_copy, component)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file or folder of the tree exists."""
        return self._kind(path) != ""

    def is_folder(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path is a folder of the tree."""
        return self._kind(path) == "folder"

    def _kind(self, path: str | os.PathLike[str]) -> str:
        name = os.fspath(path)
        if name not in self._kinds:
            try:  # first, since most of what is looked for does not exist
                mode = os.stat(name).st_mode  # noqa: PTH116
            except (OSError, ValueError):
                self._kinds[name] = ""
            else:
                kind = "folder" if stat.S_ISDIR(mode) else "file"
                self._kinds[name] = kind if self.inside(name) else ""
        return self._kinds[name]

    def document(self, path: str | os.PathLike[str]) -> yaml.Document:
        """A YAML file, parsed on first use. A file that cannot be read has problems and no root."""
        return self.files.document(path if isinstance(path, Path) else Path(path))

    def text(self, path: str | os.PathLike[str]) -> Source | None:
        """A text file of the tree (a script, a requirements file), or None where it cannot be read."""
        name = os.path.normpath(os.fspath(path))
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> Source | None:
        if "\0" in name or not self.inside(name) or self.is_folder(name):
            return None
        changed = self.files.texts.get(self.files.real(Path(name))) if self.files.texts else None
        try:
            if changed is not None:
                return Source(name, changed.decode("utf-8-sig"))
            return Source(name, untrusted.read_text(name, limits.TEXT, encoding="utf-8-sig"))
        except FileNotFoundError:
            return None
        except untrusted.UnreadableError as error:
            if error.errno != errno.EILSEQ:  # not text: a rule that needs it reports that
                self.unreadable[name] = yaml.report_unreadable(name, error, too_large="file-not-read")
            return None
        except UnicodeDecodeError:
            return None

    def sources(self) -> dict[str, Source]:
        """The texts of all files read so far, by the path that their spans carry."""
        sources = {document.path: document.source for document in self.files.documents.values()}
        sources |= {name: source for name, source in self._texts.items() if source is not None}
        return sources

    def vm_size(self, name: str | None) -> VmSize | None:
        """A VM size of the catalogue or of the project, case aside, or None."""
        from worldsize.facts import vm_sizes  # the catalogue is read only where a rule needs it

        return vm_sizes.lookup(name, self.vm_sizes) if name else None

    def prices(self) -> PriceList:
        """The prices of the project; those of the catalogue alone if its own cannot be read."""
        from worldsize.facts import prices  # as above

        file = self.prices_file or prices.REFRESHED_FILE
        try:
            return prices.read_price_list(self.region, file)
        except prices.PriceFileError:
            return prices.PriceList(self.region or prices.DEFAULT_REGION, self.region is not None)

    def list_frameworks(self, component: Component) -> list[Installed]:
        """The versions of torch and TensorFlow that the environment of a component installs."""
        from worldsize.azureml import environment  # few rules ask

        def document(path: Path) -> yaml.Node | None:
            return self.document(path).root if self.readable(path) and path.is_file() else None

        def text(path: Path) -> str | None:
            source = self.text(path)
            return source.text if source is not None else None

        if component.environment is None or component.folder is None:
            return []
        return environment.read_installed(component.environment, component.folder, document, text)

    def describe(self, compute: Compute) -> None:
        """Remember a cluster as a file describes it. Files that differ count for nothing."""
        cluster = read_cluster(compute)
        described = self.clusters.get(compute.name)
        if described is None or (cluster.declared and not described.declared):
            self.clusters[compute.name] = cluster
        elif not described.declared and _values(described) != _values(cluster):
            self._contradicted.add(compute.name)

    def cluster(self, target: object) -> Cluster | None:
        """What is known of a compute target such as ``azureml:gpu-cluster``, or None."""
        if not isinstance(target, str):
            return None
        name = target.removeprefix("azureml:")
        cluster = self.clusters.get(name)
        return None if cluster is None or (name in self._contradicted and not cluster.declared) else cluster


def _within(real: str, root: str) -> bool:
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def read_cluster(compute: Compute) -> Cluster:
    """A cluster as a compute file or a profile describes it; values of other types are dropped."""
    return Cluster(
        instance_type=_typed(compute.size, str),
        max_instances=_typed(compute.max_instances, int),
        tier=_typed(compute.tier, str),
        size_span=compute.size.span if compute.size else None,
        max_span=compute.max_instances.span if compute.max_instances else None,
        tier_span=compute.tier.span if compute.tier else None,
        declared=compute.declared,
    )


def _typed(value: Any, kind: type[T]) -> T | None:
    content = value.value if value is not None else None
    return content if isinstance(content, kind) and not isinstance(content, bool) else None


def _values(cluster: Cluster) -> tuple[object, ...]:
    return (cluster.instance_type, cluster.max_instances, cluster.tier)


def _is_unchanged_copy(tree: Tree, component: Component) -> bool:
    """Whether a component equals a built-in one, down to the bytes of its code and environment."""
    name, files = component.name.value if component.name is not None else None, tree.files
    if name not in resources.component_names() or component.path is None or tree.built_in(component.path):
        return False
    original = load_component(resources.component_file(str(name)), files)
    if original is None or _read_version(component) != _read_version(original):
        return False  # the usual case of an old copy, which needs no comparison of files
    if _leave_out_paths(component) != _leave_out_paths(original):
        return False
    gate = CopyAccess()
    try:
        one, other = _list_files(component, gate), _list_files(original, gate)
        if one.keys() != other.keys() or not files.texts.keys().isdisjoint(one.values()):
            return False  # an editor holds a file that is not saved yet
        return all(are_equal(path, other[key]) for key, path in one.items())
    except OSError:
        return False


def _read_version(component: Component) -> object:
    return component.version.value if component.version is not None else None


def _leave_out_paths(component: Component) -> dict[str, Any] | None:
    """The YAML of a component without the paths that compiling moves."""
    document = yaml.to_python(component.raw) if component.raw is not None else None
    if not isinstance(document, dict):
        return None
    kept = {key: part for key, part in document.items() if key not in ("code", "additional_includes")}
    environment = kept.get("environment")
    if isinstance(environment, dict):
        build = environment.get("build")
        moved = {"conda_file": None, "build": {**build, "path": None} if isinstance(build, dict) else build}
        kept["environment"] = {**environment, **moved}
    return kept


def _list_files(component: Component, gate: CopyAccess) -> dict[str, Path]:
    """The files of a component's code and environment, by what they are for."""
    folder = component.folder
    assert folder is not None
    code, _ = snapshot.read_snapshot(component, folder, gate)
    listed = {f"code {name}": path for name, path in code.files.items() if isinstance(path, Path)}
    for part in snapshot.list_parts(replace(component, code=None, additional_includes=None), folder, gate)[0]:
        listed |= {f"{part.key} {name}": path for name, path in part.listing.files.items()}
    return listed

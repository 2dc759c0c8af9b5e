"""``worldsize.yml``: what a project says about its clusters and assets, VM sizes, rules, and allowed folders.

The file is described by ``schemas/worldsize.schema.json``. What is wrong with it is reported like any other
fault, at its position, and the rest of it still counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field, structs

from worldsize.azureml import job
from worldsize.azureml.job import Compute
from worldsize.azureml.references import classify, exists
from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean, fix_unambiguous, fix_word
from worldsize.base.wording import shorten
from worldsize.checking import discover, exclusion
from worldsize.checking.selection import describe_unknown_rule, find_prefix
from worldsize.documents.diagnostics.diagnostic import SEVERITIES
from worldsize.documents.shape import Shape, fits_shape, load_schema
from worldsize.documents.yaml import Document, Mapping, Node, Scalar, Sequence, load
from worldsize.facts import prices, vm_sizes

_SCHEMA = load_schema("worldsize")
_CLUSTER, _SIZE = (_SCHEMA.root["$defs"][name] for name in ("cluster", "vm_size"))
_SIZE_WORDS = {
    "gpus": "a whole number from 0",
    "vcpus": "a whole number from 1",
    "memory_gib": "a number above 0",
}
_VERSION = re.compile(r"(?<=[^:/])[:@][^:@/]{1,255}$")


class Asset(NamedTuple):
    """Where an asset of Azure ML lies on this machine."""

    reference: str
    path: Path
    span: Span  # of the path


class Settings(Struct):
    """The content of a file. Codes are complete (``WS203``) or beginnings (``WS2``)."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()  # patterns relative to the folder of the file
    severity: dict[str, str] = field(default_factory=dict)  # by code or its beginning
    allow: tuple[Path, ...] = ()
    assets: tuple[Asset, ...] = ()
    computes: list[Compute] = field(default_factory=list)
    vm_sizes: vm_sizes.Learned = vm_sizes.NOT_LEARNED
    region: str | None = None
    prices_file: Path = prices.REFRESHED_FILE  # what `worldsize catalogue --prices` has read, if it exists
    problems: list[Problem] = field(default_factory=list)

    def find_mapped(self, reference: str) -> Path | None:
        """The local path that data of a workspace is mapped to; a name alone stands for its versions."""
        paths = {asset.reference: asset.path for asset in self.assets}
        return paths.get(reference) or paths.get(_VERSION.sub("", reference))


@lru_cache(maxsize=8)  # a check asks for what is selected, excluded and allowed
def read_settings(document: Document) -> Settings:
    """The settings of a parsed file, with its problems."""
    folder = Path(document.path).parent
    settings = Settings(problems=list(document.problems), prices_file=folder / prices.REFRESHED_FILE)
    root = document.root
    if root is None:
        return settings
    if not isinstance(root, Mapping):
        settings.problems.append(
            _report_wrong(root, "the file", "a mapping", "start with `compute:` or `ignore:`")
        )
        return settings
    settings.problems += islice(_report_unknown_keys(root, _SCHEMA.root, "worldsize.yml"), limits.FOUND)
    settings.select = tuple(_read_codes(settings, root, "select"))
    settings.ignore = tuple(_read_codes(settings, root, "ignore"))
    settings.exclude = tuple(_read_globs(settings, root.get("exclude")))
    settings.severity = dict(_read_severities(settings, root.get("severity")))
    settings.allow = tuple(_read_folders(settings, root.get("allow"), folder))
    settings.assets = tuple(_read_assets(settings, root.get("assets"), folder))
    settings.computes = list(_read_computes(settings, root, Path(document.path)))
    settings.vm_sizes = vm_sizes.collect_learned(_read_vm_sizes(settings, root.get("vm_sizes")))
    settings.region = _read_region(settings, root.get("region"))
    return settings


def read_project_settings(folder: Path) -> Settings:
    """The settings that a check of a folder reads; empty ones where its project has none."""
    path = discover.find_settings(str(folder.resolve()), discover.find_tree(folder))
    return Settings() if path is None else read_settings(load(Path(path)))


def _report_unknown_keys(node: Mapping, shape: Shape, where: str) -> Iterator[Problem]:
    names = sorted(shape["properties"])
    for key in (key for key, _ in node.items() if key.text not in names):
        message = f"unknown key `{shorten(key.text, 60)}` in `{where}`"
        fix = fix_unambiguous(key.span, key.text, [name for name in names if name not in node])
        yield Problem("settings-unknown-key", key.span, message, did_you_mean(key.text, names), fix=fix)


def _read_codes(settings: Settings, root: Mapping, name: str) -> Iterator[str]:
    for item in _read_items(settings, root.get(name), name, "[WS4, yaml-empty]"):
        code = _read_code(settings, item)
        if code is not None:
            yield code


def _read_code(settings: Settings, word: Scalar) -> str | None:
    code = find_prefix(word.text)
    if code is None:
        message, help_ = describe_unknown_rule(shorten(word.text, 60))
        settings.problems.append(Problem("settings-unknown-rule", word.span, message, help_))
    return code


def _read_globs(settings: Settings, node: Node | None) -> Iterator[str]:
    for item in _read_items(settings, node, "exclude", "[tests/bad, '*.generated.yml']"):
        if exclusion.is_glob(item.text):
            yield item.text
        else:
            help_ = "write a path or a pattern as in `.gitignore`, relative to the folder of `worldsize.yml`"
            settings.problems.append(_report_wrong(item, "an entry of `exclude`", "a pattern", help_))


def _read_severities(settings: Settings, node: Node | None) -> Iterator[tuple[str, str]]:
    for key, value in _read_entries(settings, node, "severity", "{WS204: info}"):
        code = _read_code(settings, key)
        level = value.text if isinstance(value, Scalar) else None
        if isinstance(value, Scalar) and value.value is False:
            level = "off"  # YAML 1.1 reads a bare `off` as false
        if level not in (*SEVERITIES, "off"):
            settings.problems.append(_report_choice(value, f"severity.{key.text}", (*SEVERITIES, "off")))
        elif code is not None:
            yield code, level


def _read_folders(settings: Settings, node: Node | None, folder: Path) -> Iterator[Path]:
    for item in _read_items(settings, node, "allow", "[../shared-components]"):
        path = folder / item.text
        if exists(path):
            yield path
        else:
            message = f"`{shorten(item.text, 60)}` does not exist, so this line allows nothing"
            help_ = "the path is relative to the folder of `worldsize.yml`"
            settings.problems.append(Problem("settings-path-missing", item.span, message, help_))


def _read_assets(settings: Settings, node: Node | None, folder: Path) -> Iterator[Asset]:
    """The map of assets. Whether a path exists is for a run to say: not every machine has all data."""
    for key, value in _read_entries(settings, node, "assets", "{azureml:cifar@latest: ./data/cifar}"):
        where = f"assets.{shorten(key.text, 60)}"
        if classify(key.text) == "local":
            message = f"`{shorten(key.text, 60)}` under `assets` is not a reference to an asset or address"
            help_ = "write `azureml:name:version`, `azureml://datastores/…` or a web address, as in jobs"
            settings.problems.append(Problem("settings-wrong-value", key.span, message, help_))
        elif isinstance(value, Scalar) and isinstance(value.value, str) and value.value:
            yield Asset(key.text, folder / value.value, value.span)
        else:
            help_ = f"write a file or folder of this machine after `{shorten(key.text, 60)}:`"
            settings.problems.append(_report_wrong(value, where, "a path", help_))


def _read_computes(settings: Settings, root: Mapping, path: Path) -> Iterator[Compute]:
    block = root.get("compute")
    for name, node in _read_entries(
        settings, block, "compute", "{gpu-cluster: {instance_type: Standard_NC96ads_A100_v4}}"
    ):
        where = f"compute.{shorten(name.text, 60)}"
        if not isinstance(node, Mapping):
            settings.problems.append(
                _report_wrong(node, where, "a mapping", "write `instance_type:` below it")
            )
            continue
        settings.problems += islice(_report_unknown_keys(node, _CLUSTER, where), limits.FOUND)
        _check_value(settings, node, where, "instance_type", shape=_CLUSTER, wanted="the name of a VM size")
        _check_value(settings, node, where, "max_instances", shape=_CLUSTER, wanted="a whole number from 1")
        tier = node.get("tier")
        if tier is not None and not _fits(tier, _CLUSTER, "tier"):
            words = _CLUSTER["properties"]["tier"]["enum"]
            settings.problems.append(_report_choice(tier, f"{where}.tier", tuple(words)))
    yield from job.read_declared(root, path)


def _read_vm_sizes(settings: Settings, block: Node | None) -> Iterator[vm_sizes.VmSize]:
    """The sizes that are described. Without its GPUs a size teaches nothing, so it has to give them."""
    example = "{Standard_ND256xyz_v9: {gpus: 8, vcpus: 256, memory_gib: 2048}}"
    for name, node in _read_entries(settings, block, "vm_sizes", example):
        where = f"vm_sizes.{shorten(name.text, 60)}"
        if not isinstance(node, Mapping) or node.get("gpus") is None:
            wanted = "a mapping with `gpus`"
            settings.problems.append(_report_wrong(node, where, wanted, "write `gpus:` below it, 0 for none"))
            continue
        settings.problems += islice(_report_unknown_keys(node, _SIZE, where), limits.FOUND)
        for key, wanted in _SIZE_WORDS.items():
            _check_value(settings, node, where, key, shape=_SIZE, wanted=wanted)
        gpus, vcpus, memory = (_read_number(node, key) for key in _SIZE_WORDS)
        if gpus is not None:
            cores = None if vcpus is None else int(vcpus)
            yield vm_sizes.make_learned(name.text, int(gpus), cores, memory)


def _read_region(settings: Settings, node: Node | None) -> str | None:
    """The region, in Azure's spelling; one without known prices is not a fault, because regions are added."""
    if node is None:
        return None
    name = node.value if isinstance(node, Scalar) else None
    if isinstance(name, str) and name.isascii() and name.isalnum() and name == name.lower():
        return name
    help_ = "write the name that `az account list-locations` gives, such as `westeurope`"
    problem = _report_wrong(node, "region", "the name of an Azure region", help_)
    if isinstance(node, Scalar) and isinstance(name, str):
        squeezed = "".join(name.split()).lower()  # `West Europe`
        if squeezed in prices.list_regions():
            fix = fix_word(node.span, name, squeezed)
            problem = structs.replace(problem, help=f"did you mean `{squeezed}`?", fix=fix)
    settings.problems.append(problem)
    return None


def describe_size(size: vm_sizes.VmSize) -> dict[str, float]:
    """The entry under ``vm_sizes`` that says what is known of a size."""
    counts = {"gpus": size.devices, "vcpus": size.vcpus, "memory_gib": size.ram_gib}
    return {key: value for key, value in counts.items() if value is not None}


def _read_number(node: Mapping, key: str) -> Any:
    value = node.get(key)
    return value.value if isinstance(value, Scalar) and _fits(value, _SIZE, key) else None


def _fits(node: Node, shape: Shape, key: str) -> bool:
    return isinstance(node, Scalar) and fits_shape(node.value, shape["properties"][key])


def _check_value(
    settings: Settings, node: Mapping, where: str, key: str, *, shape: Shape, wanted: str
) -> None:
    value = node.get(key)
    if value is not None and not _fits(value, shape, key):
        settings.problems.append(
            _report_wrong(value, f"{where}.{key}", wanted, f"write {wanted} after `{key}:`")
        )


def _read_items(settings: Settings, node: Node | None, name: str, example: str) -> Iterator[Scalar]:
    """The texts of a list."""
    items = node.items if isinstance(node, Sequence) else [] if node is None else [node]
    if node is not None and not isinstance(node, Sequence):
        settings.problems.append(_report_wrong(node, name, "a list", f"write `{name}: {example}`"))
        return
    for item in items:
        if len(settings.problems) >= limits.FOUND:
            return
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield item
        else:
            settings.problems.append(
                _report_wrong(item, f"an entry of `{name}`", "text", f"write `{name}: {example}`")
            )


def _read_entries(
    settings: Settings, node: Node | None, name: str, example: str
) -> Iterator[tuple[Scalar, Node]]:
    if isinstance(node, Mapping):
        yield from takewhile(lambda _: len(settings.problems) < limits.FOUND, node.items())
    elif node is not None:
        settings.problems.append(_report_wrong(node, name, "a mapping", f"write `{name}: {example}`"))


def _report_wrong(node: Node, name: str, wanted: str, help_: str) -> Problem:
    shown = name if "`" in name or name == "the file" else f"`{name}`"
    span = node.entries[0][0].span if isinstance(node, Mapping) and node.entries else node.span
    collection = {Mapping: "a mapping", Sequence: "a list"}.get(type(node), "")
    written = collection or (
        f"`{shorten(node.text, 60)}`" if isinstance(node, Scalar) and node.text else "nothing"
    )
    return Problem("settings-wrong-value", span, f"{shown} must be {wanted}, but it is {written}", help_)


def _report_choice(node: Node, name: str, words: tuple[str, ...]) -> Problem:
    written = shorten(node.text, 60) if isinstance(node, Scalar) else "what stands here"
    message = f"`{written}` is not a value of `{name}`"
    fix = fix_unambiguous(node.span, written, words) if isinstance(node, Scalar) else None
    return Problem("settings-wrong-value", node.span, message, did_you_mean(written, words), fix=fix)

"""Reads an environment: the local files that it refers to, and the torch or TensorFlow that it installs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.model import Field
from worldsize.azureml.references import classify, local_path
from worldsize.base.patterns import compile_later
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, find_node, list_items


class Reference(NamedTuple):
    """A local path that an environment refers to, and its position."""

    key: str  # conda_file, build.path, or environment for a whole file
    text: str
    path: Path
    span: Span | None


def list_references(environment: Field[Any] | None, folder: Path) -> Iterator[Reference]:
    """The local files and folders that an environment in a file of ``folder`` needs."""
    if environment is None:
        return
    value, node = environment.value, environment.node
    places: dict[str, tuple[Any, Node | Field[Any] | None]] = {}
    if isinstance(value, dict):
        tree = value["build"].get("path") if isinstance(value.get("build"), dict) else None
        places["conda_file"] = value.get("conda_file"), find_node(node, "conda_file")
        places["build.path"] = tree, find_node(node, "build", "path")
    elif isinstance(value, str) and is_file(value):
        places["environment"] = value, environment
    for key, (text, place) in places.items():
        path = local_path(text, folder) if isinstance(text, str) else None
        if path is not None:
            yield Reference(key, text, path, place.span if place is not None else None)


def is_file(text: str) -> bool:
    """Whether ``environment:`` names a file rather than a registered environment."""
    return text.startswith("file:") or (classify(text) == "local" and text.endswith((".yml", ".yaml")))


Documents = Callable[[Path], "Node | None"]
Texts = Callable[[Path], "str | None"]

_REQUIREMENT = compile_later(
    r"(?P<name>torch|tensorflow(?:-cpu|-gpu)?)(?:\[[\w,. -]{0,60}\])?\s{0,9}(?P<how>==|~=)\s{0,9}"
    r"(?P<version>\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?P<any>\.\*)?(?:\+(?P<tag>[a-z][\w.]{0,20}))?",
    re.IGNORECASE,
)
_CONDA = compile_later(
    r"(?:\S{1,60}::)?pytorch\s{0,3}={1,2}\s{0,3}(?P<version>\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)"
)
_CONDA_CUDA = compile_later(r"(?:\S{1,60}::)?pytorch-cuda\s{0,3}={1,2}\s{0,3}(?P<cuda>\d{1,3}\.\d{1,3})")
_INDEX = compile_later(r"download\.pytorch\.org/whl/(?P<tag>[a-z]+[\d.]*)/?$")
_INDEX_OPTIONS = ("--index-url", "--extra-index-url", "--find-links", "-i", "-f")
_IMAGE = compile_later(
    r"(?:acpt-pytorch-(?P<curated>\d{1,3}\.\d{1,3})"
    r"|pytorch/pytorch:(?P<hub>\d{1,3}\.\d{1,3})(?:\.\d{1,3})?)-cuda"
    r"(?P<cuda>\d{1,3}\.\d{1,3})",
    re.IGNORECASE,
)
_LINE_JOIN = compile_later(r"\\[ \t]{0,9}\n")
LONGEST = 10_000  # characters of a line that are read


class Installed(Struct, frozen=True):
    """A framework that an environment contains."""

    package: str  # `torch` or `tensorflow`
    version: str  # the pinned version: `2.10.0` or `2.10`
    tag: str | None  # the build, `cu128`, `cpu` or `rocm7.2`; None for that of Python's package index
    text: str  # as it is written
    span: Span | None  # its position in a YAML file; None in another file
    image: str = ""  # the image of the environment, if it is named


def read_installed(
    environment: Field[Any] | None, folder: Path, documents: Documents, texts: Texts
) -> list[Installed]:
    """Find the frameworks of an environment; empty if they cannot be determined.

    ``documents`` reads the root of a YAML file and ``texts`` another text file; None if it cannot be read.
    """
    if environment is None:
        return []
    value, node = environment.value, environment.node
    if isinstance(value, str):
        if not is_file(value):
            return list(_read_image(value, environment.span))
        path = local_path(value, folder)
        root = documents(path) if path is not None else None
        if path is None or not isinstance(root, Mapping):
            return []
        node, folder = root, path.parent
    return _read_environment(node, folder, documents, texts) if isinstance(node, Mapping) else []


def _read_environment(node: Mapping, folder: Path, documents: Documents, texts: Texts) -> list[Installed]:
    image, conda, build = node.get("image"), node.get("conda_file"), node.get("build")
    name = image.text if isinstance(image, Scalar) else ""
    if conda is not None:
        listed = local_path(conda.text, folder) if isinstance(conda, Scalar) else None
        conda = documents(listed) if listed is not None else conda
        return [replace(framework, image=name) for framework in _read_conda_file(conda)]
    if isinstance(build, Mapping):
        path, file = build.get("path"), build.get("dockerfile_path")
        named = file.text if isinstance(file, Scalar) else "Dockerfile"
        tree = local_path(path.text, folder) if isinstance(path, Scalar) else None
        return _read_dockerfile(tree, named, texts) if tree is not None else []
    return list(_read_image(name, image.span)) if image is not None else []


def _read_image(name: str, span: Span | None) -> Iterator[Installed]:
    """The torch of an image of Azure ML or PyTorch whose name contains the version."""
    match = _IMAGE.search(name[:500])
    if match is not None:
        version, tag = match["curated"] or match["hub"], "cu" + match["cuda"].replace(".", "")
        yield Installed("torch", version, tag, name, span, name)


class Package(NamedTuple):
    """A line of a conda file."""

    line: Scalar
    by_pip: bool  # whether pip installs it, not conda


def list_packages(root: Node | None) -> list[Package]:
    """The packages of a conda file, in its order."""
    packages: list[Package] = []
    for item in list_items(find_node(root, "dependencies")):
        lines = [item, *list_items(find_node(item, "pip"))]
        packages += [Package(line, line is not item) for line in lines if isinstance(line, Scalar)]
    return packages


def _read_conda_file(root: Node | None) -> list[Installed]:
    packages = list_packages(root)
    requirements = [(line.text, line.span) for line, by_pip in packages if by_pip]
    conda_items = [item for item, by_pip in packages if not by_pip]
    return _read_requirements(requirements) or list(_read_conda_packages(conda_items))


def _read_conda_packages(items: list[Scalar]) -> Iterator[Installed]:
    """PyTorch's conda packages, whose CUDA version another package determines."""
    cudas = [match["cuda"] for item in items if (match := _CONDA_CUDA.match(item.text[:LONGEST]))]
    tag = "cpu" if any(item.text.strip() == "cpuonly" for item in items) else None
    tag = "cu" + cudas[0].replace(".", "") if len(cudas) == 1 else tag
    for item in items:
        match = _CONDA.match(item.text[:LONGEST])
        if match is not None and tag is not None:
            yield Installed("torch", match["version"], tag, item.text.strip(), item.span)


def _read_requirements(lines: Iterable[tuple[str, Span | None]]) -> list[Installed]:
    """The frameworks of pip requirements; with an index other than PyTorch's the builds are unknown."""
    installed: list[Installed] = []
    indexes: list[str | None] = []
    for text, span in lines:
        line = text[:LONGEST].split(" #", 1)[0].strip()
        if line.startswith("#") or ";" in line:
            continue  # a marker
        words = line.replace("=", " ", 1).split() if line.startswith("--") else line.split()
        if words and words[0] in _INDEX_OPTIONS:
            indexes.append(_read_index_tag(words[1] if len(words) > 1 else ""))
            continue
        framework = _read_requirement(line, span)
        installed += [framework] if framework is not None else []
    return _apply_index(installed, indexes)


def _read_requirement(line: str, span: Span | None) -> Installed | None:
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        return None
    name, version = match["name"].lower(), match["version"]
    if match["how"] == "~=":
        if version.count(".") < 2:
            return None  # ~=2.10 is any 2.x from 2.10 on
        version = version.rpartition(".")[0]
    if match["any"] and version.count(".") > 1:
        return None
    tag = "cpu" if name == "tensorflow-cpu" else match["tag"]
    return Installed(name.partition("-")[0], version, tag, line, span)


def _read_index_tag(url: str) -> str | None:
    match = _INDEX.search(url.strip("\"'"))
    return match["tag"] if match is not None else None


def _apply_index(installed: list[Installed], indexes: list[str | None]) -> list[Installed]:
    """Prefer the build of PyTorch's index to the plain version; builds of other indexes are unknown."""
    if not indexes:
        return installed
    tag = indexes[0] if len(set(indexes)) == 1 else None
    kept = [
        framework
        for framework in installed
        if framework.tag is not None or (framework.package == "torch" and tag is not None)
    ]
    return [framework if framework.tag is not None else replace(framework, tag=tag) for framework in kept]


def _read_dockerfile(tree: Path, name: str, texts: Texts) -> list[Installed]:
    """The frameworks that a Dockerfile installs by pip, else those of its base image."""
    text = texts(tree / name)
    if text is None:
        return []
    installed: list[Installed] = []
    images: list[str] = []
    for line in _LINE_JOIN.sub(" ", text).splitlines():
        words = line[:LONGEST].split()
        if words and words[0].upper() == "FROM" and len(words) > 1:
            images.append(words[1])
        elif words and words[0].upper() == "RUN" and "install" in words and "pip" in line[:LONGEST]:
            installed += _read_pip_command(words, tree, texts)
    image = images[-1] if images else ""
    return [replace(framework, image=image) for framework in installed] or list(_read_image(image, None))


def _read_pip_command(words: list[str], tree: Path, texts: Texts) -> list[Installed]:
    lines: list[tuple[str, Span | None]] = []
    for position, word in enumerate(words):
        option, _, joined = word.partition("=") if word.startswith("--") else (word, "", "")
        following = joined or (words[position + 1] if position + 1 < len(words) else "")
        if option in _INDEX_OPTIONS:
            lines.append((f"{option} {following}", None))
        elif option in ("-r", "--requirement"):
            listed = texts(tree / following.strip("\"'").removeprefix("./"))
            lines += [(line, None) for line in (listed or "").splitlines()]
        elif not word.startswith("-"):
            lines.append((word.strip("\"'"), None))
    return _read_requirements(lines)

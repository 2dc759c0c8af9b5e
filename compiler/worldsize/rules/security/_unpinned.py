"""What changes without an edit: environments, images, components and packages without a version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml import environment
from worldsize.azureml.fields import read_member
from worldsize.azureml.model import Component, Step
from worldsize.azureml.references import folder_of, report_unknown_label
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Problem
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, find_node

# Curated environments have the prefix of the service, which finds their version itself.
_WITHOUT_VERSION = compile_later(
    r"azureml:(?!AzureML-)[\w.-]+|azureml://registries/[\w.-]+/environments/[\w.-]+"
)
_LATEST = compile_later(r"(?:@|/labels/)latest\s*$")


def check_component(context: Tree, component: Component) -> Iterator[Problem]:
    field = component.environment
    if field is not None and isinstance(field.node, Scalar):
        yield from _judge(field.node)


def check_step(context: Tree, step: Step) -> Iterator[Problem]:
    node = find_node(step.raw, "environment")
    if isinstance(node, Scalar):  # a step's own environment goes before its component's
        yield from _judge(node)


def _judge(node: Scalar) -> Iterator[Problem]:
    if _WITHOUT_VERSION.fullmatch(node.text):
        separator = "/versions/1" if "://" in node.text else ":1"
        latest_version = "/labels/latest" if "://" in node.text else "@latest"
        message = f"`{node.text}` names an environment without its version"
        help_ = f"write `{node.text}{separator}` with the version you mean, or `{node.text}{latest_version}`"
        yield Problem("environment-without-version", node.span, message, help_)
    if (finding := report_unknown_label(node.text, node.span)) is not None:
        yield finding.under("environment-without-version")
    latest = _LATEST.search(node.text)
    if latest is not None:
        span = node.subspan(latest.start(), latest.end())
        message = f"`{latest[0].strip()}` runs another environment as soon as a new version is registered"
        name = node.text[: latest.start()]
        pinned = f"{name}/versions/N" if "/" in latest[0] else f"{name}:N"
        yield Problem(
            "environment-unpinned", span, message, f"write `{pinned}` with the version N that was tested"
        )


def check_component_unpinned(context: Tree, step: Step) -> Iterator[Finding]:
    node = step.reference.node if step.reference is not None else None
    if not isinstance(node, Scalar) or not node.text.startswith("azureml:"):
        return
    for ending in ("@latest", "/labels/latest"):
        if node.text.endswith(ending):
            name = node.text[: -len(ending)]
            message = f"`{ending}` runs other code as soon as a new version is registered"
            pinned = f"{name}/versions/N" if "/" in ending else f"{name}:N"
            span = node.subspan(len(name), len(node.text))
            yield Finding(span, message, f"write `{pinned}` with the version N that was tested")


def check_image_unpinned(context: Tree, component: Component) -> Iterator[Finding]:
    image = read_member(component.environment, "image")
    node = image.node if image is not None else None
    if (
        not isinstance(node, Scalar)
        or not isinstance(node.value, str)
        or "$" in node.text
        or "@" in node.text
    ):
        return
    name, _, tag = node.text.rpartition("/")[2].partition(":")
    if name and tag in ("", "latest"):
        what = "no fixed tag" if tag else "no tag"
        full = node.text.removesuffix(":latest") if tag else node.text.removesuffix(":")
        message = f"image `{node.text}` has {what}, so the job may run another image each time"
        yield Finding(node.span, message, f"write `{full}:TAG` with the tag that was tested")


_PIP = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,\s.-]*\])?")
_BOUND = re.compile(r"===?|~=|<|>|!=|\s@\s|://")
_CONDA_BOUND = re.compile(r"[=<>]")


def check_dependency_unpinned(context: Tree, component: Component) -> Iterator[Finding]:
    field = component.environment
    if field is None or field.node is None:
        return
    inline = field.node.get("conda_file") if isinstance(field.node, Mapping) else None
    if isinstance(inline, Mapping):
        yield from _judge_packages(inline)
    for key, _, path, _ in environment.list_references(field, folder_of(field.node)):
        if key == "conda_file" and context.exists(path) and not context.is_folder(path):
            yield from _judge_packages(context.document(path).root)


def _judge_packages(root: Node | None) -> Iterator[Finding]:
    loose = list(_loose(root))
    if loose:
        span, name = loose[0]
        others = [other for _, other in loose[1:]]
        more = f", nor has `{others[0]}`" if others else ""
        more = f", nor have {len(others)} others" if len(others) > 1 else more
        help_ = f"write `{name}==VERSION` with the version that was tested"
        yield Finding(span, f"`{name}` has no version{more}", help_)


def _loose(root: Node | None) -> Iterator[tuple[Span, str]]:
    for line, by_pip in environment.list_packages(root):
        name = parse_pip_name(line.text) if by_pip else parse_conda_name(line.text)
        if name:
            yield line.span, name


def parse_pip_name(text: str) -> str | None:
    """The package of a requirement without any bound on its version; None for any other line."""
    line = text.split("#", 1)[0].split(";", 1)[0].strip()
    name = _PIP.fullmatch(line)
    return None if name is None or _BOUND.search(line) or line.endswith((".txt", ".whl")) else name[0]


def parse_conda_name(text: str) -> str | None:
    """The package of a conda dependency without a version; ``pip`` itself does not count."""
    name = text.rpartition("::")[2].strip()
    return None if _CONDA_BOUND.search(name) or " " in name or name in ("pip", "") else name


_INSTALL = re.compile(r"\bpip[\d.]*\s+install\b(?P<words>[^;&|\n]*)")
_WORD = re.compile(r"\S+")
_WITH_VALUE = re.compile(
    r"-[rcitfe]|--(?:requirement|constraint|(?:extra-)?index-url|target|find-links|editable|root|prefix|trusted-host)"
)
_TOOLS = {"pip", "setuptools", "wheel"}


def check_install_unpinned(context: Tree, component: Component) -> Iterator[Finding]:
    node = component.command.node if component.command is not None else None
    if not isinstance(node, Scalar) or "pip" not in node.text:
        return
    for install in _INSTALL.finditer(node.text):
        packages = list(_find_packages(install))
        if not packages:
            continue
        name, start, text = packages[0]
        message = f"`pip install {name}` gets whatever version is the newest when the job starts"
        help_ = f"install `{name}` in the environment, or write its version"
        if len(packages) > 1:
            others = plural(len(packages) - 1, "other")
            message = (
                f"`pip install {name}` and {others} get whatever versions are the newest when the job starts"
            )
            help_ = "install them in the environment, or write their versions"
        yield Finding(node.subspan(start, start + len(text)), message, help_)


def _find_packages(install: re.Match[str]) -> Iterator[tuple[str, int, str]]:
    """The packages without a version: name, place in the command and how they are written."""
    value_follows = False
    for word in _WORD.finditer(install["words"]):
        text = word[0].strip("'\"")
        skipped, value_follows = value_follows, _WITH_VALUE.fullmatch(text) is not None
        if skipped or text.startswith("-") or "/" in text or "$" in text:
            continue
        name = parse_pip_name(text)
        if name and name not in _TOOLS:
            yield name, install.start("words") + word.start() + word[0].find(text), text

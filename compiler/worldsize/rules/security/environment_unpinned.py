"""A step uses the latest version of its environment, or names an environment without any version."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Problem
from worldsize.documents.yaml.nodes import Mapping, Scalar
from worldsize.rules.context import Context

# Curated environments have the prefix of the service, which finds their version itself.
_WITHOUT_VERSION = compile_later(
    r"azureml:(?!AzureML-)[\w.-]+|azureml://registries/[\w.-]+/environments/[\w.-]+"
)
_LATEST = compile_later(r"(?:@|/labels/)latest\s*$")


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    field = component.environment
    if field is not None and isinstance(field.node, Scalar):
        yield from _judge(field.node)


def check_step(context: Context, step: Step) -> Iterator[Problem]:
    node = step.raw.get("environment") if isinstance(step.raw, Mapping) else None
    if isinstance(node, Scalar):  # a step's own environment goes before its component's
        yield from _judge(node)


def _judge(node: Scalar) -> Iterator[Problem]:
    if _WITHOUT_VERSION.fullmatch(node.text):
        separator = "/versions/1" if "://" in node.text else ":1"
        latest_version = "/labels/latest" if "://" in node.text else "@latest"
        message = f"`{node.text}` names an environment without its version"
        help_ = f"write `{node.text}{separator}` with the version you mean, or `{node.text}{latest_version}`"
        yield Problem("environment-without-version", node.span, message, help_)
    latest = _LATEST.search(node.text)
    if latest is not None:
        span = node.subspan(latest.start(), latest.end())
        message = f"`{latest[0].strip()}` runs another environment as soon as a new version is registered"
        name = node.text[: latest.start()]
        pinned = f"{name}/versions/N" if "/" in latest[0] else f"{name}:N"
        yield Problem(
            "environment-unpinned", span, message, f"write `{pinned}` with the version N that was tested"
        )

"""The files around a spec: settings of the project, what is not uploaded, and the check of each commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.azureml import yaml_dump
from worldsize.azureml.model import Field
from worldsize.azureml.yaml_dump import Flow

SETTINGS, IGNORED, WORKFLOW = "worldsize.yml", ".amlignore", ".github/workflows/worldsize.yml"
_SCHEMAS = "https://raw.githubusercontent.com/worldsize/worldsize/main/schemas"
SPEC_SCHEMA = f"yaml-language-server: $schema={_SCHEMAS}/spec.schema.json"
_SETTINGS_SCHEMA = f"yaml-language-server: $schema={_SCHEMAS}/worldsize.schema.json"
NO_SIZE = (
    "TODO: add `instance_type`, the VM size, and `max_instances`, or run `worldsize catalogue --refresh`"
)
_NOT_UPLOADED = (".git/", ".github/", ".venv/", ".worldsize/", "__pycache__/", "mlruns/", "*.pyc")
# Actions by the hash of their commit: a tag can be moved to other code.
_CHECKOUT = ("actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8", "v5.0.0")
_SETUP_PYTHON = ("actions/setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c", "v6.0.0")


def write_settings(clusters: Mapping[str, tuple[str | None, int | None]], allowed: Sequence[str] = ()) -> str:
    """``worldsize.yml``: the VM size and most instances of each cluster, and what a check may read."""
    compute = {name: _describe_cluster(size, count) for name, (size, count) in clusters.items()}
    document: dict[str, Any] = {"compute": compute} if compute else {"exclude": [".venv"]}
    document |= {"allow": Field([*allowed], comment="a check reads it there")} if allowed else {}
    return yaml_dump.dump(document, header=_SETTINGS_SCHEMA)


def _describe_cluster(size: str | None, count: int | None) -> Any:
    if size is None:
        return Field(Flow(), comment=NO_SIZE)
    return Flow(instance_type=size, **({"max_instances": count} if count is not None else {}))


def write_ignored(*also: str) -> str:
    """``.amlignore``: what is not uploaded with code; ``also`` is data, which is an input."""
    return "".join(f"{line}\n" for line in (*_NOT_UPLOADED, *(f"/{path}" for path in dict.fromkeys(also))))


# No package index has Worldsize yet.
SOURCE = "git+https://github.com/worldsize/worldsize"


def write_workflow() -> str:
    """A GitHub workflow that checks each commit."""
    steps = [
        {
            "uses": Field(_CHECKOUT[0], comment=_CHECKOUT[1]),
            "with": Flow({"persist-credentials": False}),
        },
        {"uses": Field(_SETUP_PYTHON[0], comment=_SETUP_PYTHON[1]), "with": Flow({"python-version": "3.11"})},
        {"run": f"pipx run --spec {SOURCE} worldsize check . --format github"},
    ]
    job = {
        "runs-on": "ubuntu-24.04",
        "timeout-minutes": 10,
        "permissions": Flow(contents="read"),
        "steps": steps,
    }
    return yaml_dump.dump(
        {
            "name": "worldsize",
            "on": {"push": Flow(branches="main"), "pull_request": {}},
            "permissions": {},
            "concurrency": Flow(
                {"group": "${{ github.workflow }}-${{ github.ref }}", "cancel-in-progress": True}
            ),
            "jobs": {"check": job},
        }
    )

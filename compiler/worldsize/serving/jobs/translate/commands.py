"""What a command runs and where: code, environment, processes, resources and limits."""

from __future__ import annotations

from typing import Any

from worldsize.serving.errors import bad_request
from worldsize.serving.jobs.translate.body import Body, drop_empty
from worldsize.serving.jobs.translate.lookup import References

DISTRIBUTIONS = {"pytorch": "pytorch", "mpi": "mpi", "tensorflow": "tensorflow", "ray": "ray"}


def read_command(body: Body, references: References) -> dict[str, Any]:
    """The keys of a command: those of a job, of a sweep's trial, or of a component's specification."""
    return drop_empty(
        {
            "command": body.text("command"),
            "code": references.code(body.text("codeId") or body.text("code")),
            "environment": references.environment(body.text("environmentId") or body.text("environment")),
            **read_settings(body),
        }
    )


def read_settings(body: Body) -> dict[str, Any]:
    """The keys that a job and a node of a pipeline share."""
    limits = body.body("limits")
    variables = body.get("environmentVariables")
    return drop_empty(
        {
            "environment_variables": None if variables is None else dict(body.object("environmentVariables")),
            "distribution": _read_distribution(body.body("distribution")),
            "resources": _read_resources(body.body("resources")),
            "limits": drop_empty({"timeout": limits.seconds("timeout")}) if limits is not None else None,
        }
    )


def _read_distribution(body: Body | None) -> dict[str, Any] | None:
    kind = body and (body.text("distributionType") or body.text("type"))
    if body is None or not kind:
        return None
    word = DISTRIBUTIONS.get(kind.lower())
    if word is None:
        raise bad_request(f"`{body.where}` is of type `{kind[:40]}`; known are PyTorch, Mpi and TensorFlow.")
    counts = {
        "process_count_per_instance": body.number("processCountPerInstance"),
        "worker_count": body.number("workerCount"),
        "parameter_server_count": body.number("parameterServerCount"),
    }
    return drop_empty({"type": word, **counts})


def _read_resources(body: Body | None) -> dict[str, Any] | None:
    if body is None:
        return None
    return drop_empty(
        {
            "instance_count": body.number("instanceCount"),
            "instance_type": body.get("instanceType"),
            "shm_size": body.text("shmSize"),
            "docker_args": body.get("dockerArgs"),
        }
    )

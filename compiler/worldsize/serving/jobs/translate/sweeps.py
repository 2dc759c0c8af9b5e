"""Sweeps: the search space, sampling, objective, limits and early termination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.azureml.sweep import POLICIES, SETTINGS
from worldsize.serving.errors import bad_request
from worldsize.serving.jobs.translate.body import Body, drop_empty

_POLICIES = {name.replace("_", ""): name for name in POLICIES}


def read_sweep(body: Body) -> dict[str, Any]:
    """The keys of a sweep, of a job or a node, but for its trial."""
    space = {
        name: read_distribution(value, f"{body.where}.searchSpace.{name}")
        for name, value in body.object("searchSpace").items()
    }
    objective = body.body("objective")
    return drop_empty(
        {
            "sampling_algorithm": _read_sampling(body.get("samplingAlgorithm"), body.where),
            "search_space": space,
            "objective": objective
            and drop_empty(
                {
                    "goal": (objective.text("goal") or "").lower(),
                    "primary_metric": objective.text("primaryMetric"),
                }
            ),
            "limits": _read_limits(body.body("limits")),
            "early_termination": _read_policy(body.body("earlyTermination")),
        }
    )


def read_distribution(value: Any, where: str) -> Any:
    """A distribution of the search space: ``["uniform", [0.1, 1.0]]``, or as YAML has it in a node.

    Raises:
        ServiceError: It is neither.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
        raise bad_request(f'`{where}` is not a distribution, such as `["uniform", [0.1, 1.0]]`.')
    kind, arguments = str(value[0]).lower(), value[1]
    if kind == "choice":
        values = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
        return {"type": "choice", "values": values}
    names = SETTINGS.get(kind)
    if names is None or len(names) != len(arguments):
        raise bad_request(f"`{where}` is not a distribution that is known: `{kind[:40]}`.")
    return {"type": kind, **dict(zip(names, arguments, strict=True))}


def _read_sampling(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value.lower() if value else None
    body = Body(value, f"{where}.samplingAlgorithm")
    kind = (body.text("samplingAlgorithmType") or body.text("type") or "random").lower()
    options = {
        "seed": body.number("seed"),
        "rule": body.text("rule"),
        "logbase": body.get("logbase"),
    }
    return drop_empty({"type": kind, **options}) if drop_empty(options) else kind


def _read_limits(body: Body | None) -> dict[str, Any] | None:
    if body is None:
        return None
    return drop_empty(
        {
            "max_total_trials": body.number("maxTotalTrials"),
            "max_concurrent_trials": body.number("maxConcurrentTrials"),
            "timeout": body.seconds("timeout"),
            "trial_timeout": body.seconds("trialTimeout"),
        }
    )


def _read_policy(body: Body | None) -> dict[str, Any] | None:
    kind = body and (body.text("policyType") or body.text("type"))
    if body is None or not kind:
        return None
    slack = {"slack_factor": body.number("slackFactor"), "slack_amount": body.number("slackAmount")}
    return drop_empty(
        {
            "type": _POLICIES.get(kind.replace("_", "").lower(), kind.lower()),
            "evaluation_interval": body.number("evaluationInterval"),
            "delay_evaluation": body.number("delayEvaluation"),
            **{name: value for name, value in slack.items() if value},  # the client sends 0 for none
            "truncation_percentage": body.number("truncationPercentage") or None,
            "exclude_finished_jobs": body.get("excludeFinishedJobs"),
        }
    )

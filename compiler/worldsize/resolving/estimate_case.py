"""From an estimate file to a question for the step-time model, or to what keeps it from being asked."""

from __future__ import annotations

from worldsize.base.problem import Problem
from worldsize.facts.vm_sizes import NOT_LEARNED, Learned
from worldsize.planning.estimates.memory import describe_shortage, find_fitting, fits
from worldsize.planning.estimates.model import Case
from worldsize.resolving.workloads import check_case, make_cluster, make_training, make_workload
from worldsize.spec.estimate_file import EstimateKeys


def resolve_case(keys: EstimateKeys, problems: list[Problem], learned: Learned = NOT_LEARNED) -> Case | None:
    """The case of a file that was read; None with at least one problem, added to those of reading it."""
    micro_batch = keys.training["micro_batch"]
    accumulation = keys.training.get("accumulation")
    training = make_training(
        keys.training, micro_batch.value, accumulation.value if accumulation is not None else 1
    )
    cluster = make_cluster(keys.cluster, keys.spans["cluster"], problems, learned)
    if cluster is None or problems:
        return None
    case = Case(make_workload(keys.workload), training, cluster)
    places = {
        name: keys.training[name].span if name in keys.training else keys.spans["training"]
        for name in ("precision", "parallelism")
    }
    problems += check_case(case, places)
    if not problems and not fits(case):
        problems.append(_report_memory(case, keys))
    return None if problems else case


def _report_memory(case: Case, keys: EstimateKeys) -> Problem:
    fitting = [text for text, _ in find_fitting(case)]
    help_ = f"what fits: {', or '.join(fitting)}" if fitting else "divide the model over more or larger GPUs"
    return Problem("memory-exceeded", keys.training["micro_batch"].span, describe_shortage(case), help_)


def explain_unknown(case: Case) -> str:
    """Which rate keeps a speed from being estimated."""
    cluster = case.cluster
    of = f" of {cluster.instance_type}" if cluster.instance_type else ""
    if cluster.instance_count > 1 and (cluster.network_bytes_per_s is None or cluster.rdma is None):
        return f"the network{of} is not known: add `network_gbit` and `rdma` to `cluster`"
    return f"the link between the GPUs{of} is not known"

"""``workload:`` of a spec or an estimate file: the model, as far as its speed depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Entries
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from worldsize.base.problem import Problem
from worldsize.base.wording import quoted_list
from worldsize.documents.shape import load_schema
from worldsize.documents.yaml.nodes import Node, Scalar, find_node, list_entries
from worldsize.spec.model import Located, WorkloadKeys
from worldsize.spec.values import number_with_dot, write_flow


class Transformer(Struct, frozen=True):
    """A transformer; ``width`` is that of the residual stream, ``parameters`` counts the embeddings."""

    parameters: float
    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence_length: int
    tied_embeddings: bool | None = None  # whether the head is the embedding; None to tell by the parameters
    trained_parameters: float | None = None  # None for all

    @property
    def trained_share(self) -> float:
        """The share of the parameters that is trained."""
        trained = self.trained_parameters
        return 1.0 if trained is None else min(trained / self.parameters, 1.0)


class Convolutional(Struct, frozen=True):
    """A convolutional network, by one sample.

    ``forward_flops`` counts a multiplication and an addition as two. ``activation_bytes`` are those of the
    outputs of all layers in fp32; None to take those of a ResNet with as many operations.
    """

    parameters: float
    forward_flops: float
    activation_bytes: float | None = None
    trained_share = 1.0


Workload = Transformer | Convolutional
KINDS: dict[str, type[Transformer | Convolutional]] = {
    "transformer": Transformer,
    "convolutional": Convolutional,
}
STAGES = {"fsdp": (2, 3), "deepspeed": (0, 1, 2, 3)}  # of ZeRO; the other strategies have only 0


def read_exponents(parent: Node | None) -> None:
    """Read ``6.65e9`` under ``workload:`` as a number.

    YAML 1.1 takes it for text, but counts of parameters and operations are written so, and Azure ML never
    reads this part of a file.
    """
    for _, value in list_entries(find_node(parent, "workload")):
        if isinstance(value, Scalar) and not value.style and isinstance(value.value, str):
            number = number_with_dot(value.text)
            if number is not None:
                value._value = float(number)  # noqa: SLF001 - the value that is computed on demand


def check_workload(workload: WorkloadKeys) -> Iterator[Problem]:
    """Report keys that the kind of a workload lacks, and keys of another kind."""
    kind = workload.kind
    keys = ("kind", *KINDS[kind].__struct_fields__)
    for name, located in workload.values.items():
        if name not in keys:
            message = f"`{name}` is not a key of a {kind} workload"
            yield Problem("spec-unknown-key", located.key_span, message, f"its keys are {quoted_list(keys)}")
    properties = load_schema("spec").root["$defs"]["workload"]["properties"]
    for name in (key.name for key in fields(KINDS[kind]) if key.required):
        if name not in workload.values:
            example = write_flow(properties[name]["examples"][0])
            message = f"a {kind} workload has no `{name}`"
            yield Problem("spec-missing-key", workload.span, message, f"add `{name}: {example}`")


def check_stage(values: Entries[str, Located[Any]]) -> Iterator[Problem]:
    """Report a ZeRO stage that the strategy beside it does not have."""
    stage = values.get("zero_stage")
    strategy = values["strategy"].value if "strategy" in values else "ddp"
    if stage is None or stage.value in STAGES.get(strategy, (0,)):
        return
    if strategy not in STAGES:
        message = f"`zero_stage` is {stage.value}, but `{strategy}` divides nothing between ranks"
        yield Problem("spec-value-not-allowed", stage.span, message, "remove it, or write `strategy: fsdp`")
        return
    message = f"`zero_stage` of `{strategy}` cannot be {stage.value}"
    allowed = quoted_list(str(stages) for stages in STAGES[strategy])
    yield Problem("spec-value-not-allowed", stage.span, message, f"allowed: {allowed}")

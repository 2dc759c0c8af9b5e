"""The options of a run: the flags of ``worldsize run`` as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

EnvironmentMode = Literal["current", "isolated", "docker"]
NodeMode = Literal["processes", "namespaces"]


class RunOptions(Struct, frozen=True):
    """How a pipeline is to be run here."""

    processes: int | None = None  # of every distributed step; None for as many as planned and fit
    # inputs of the pipeline by name, as text, over those of its file
    settings: Mapping[str, str] = field(default_factory=dict)
    # local paths by reference (`azureml:cifar@latest`), over those of `worldsize.yml`
    assets: Mapping[str, str] = field(default_factory=dict)
    # what interprets the steps; None for `current` where only our own packages are needed, else `isolated`
    environment: EnvironmentMode | None = None
    force: bool = False  # whether every step runs, also one that did so before with the same inputs
    nodes: NodeMode = "processes"  # what stands for an instance: only processes, or a network namespace
    link: str | None = None  # how the links between namespaces are shaped, such as `25gbit,50us`
    kill: tuple[str, ...] = ()  # instances to kill, such as `node1@step:200`
    drop_link: tuple[str, ...] = ()  # links to cut, such as `node1@30s`
    # how often a step that keeps checkpoints is started again after a failure
    max_restarts: int | None = None
    chaos: int | None = None  # seed of a rehearsal that kills, stops, slows and cuts off processes

    @property
    def emulate_anything(self) -> bool:
        """Whether they ask for emulated machines or for faults."""
        emulated = self.link is not None or self.chaos is not None or self.kill or self.drop_link
        return self.nodes != "processes" or bool(emulated)

    def __post_init__(self) -> None:
        """Refuse impossible counts.

        Raises:
            ValueError: ``processes`` is below 1, or ``max_restarts`` below 0.
        """
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"processes must be at least 1, got {self.processes}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"max_restarts must be at least 0, got {self.max_restarts}")

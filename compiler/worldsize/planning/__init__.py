"""Pure arithmetic: from what worked on one device to every number of a distributed training.

:func:`derive` plans a spec, :func:`localise` fits a plan to fewer processes with the same mathematics.
"""

from __future__ import annotations

from worldsize.planning.derive import derive
from worldsize.planning.model import Interface
from worldsize.planning.localise import localise
from worldsize.planning.model import Derivation, Plan, StepPlan, Topology, Training

__all__ = ["Derivation", "Interface", "Plan", "StepPlan", "Topology", "Training", "derive", "localise"]

"""Pure arithmetic: derives every number of a distributed training from what worked on one device.

:func:`derive` plans a spec, :func:`localise` fits a plan to fewer processes with the same mathematics.
"""

from __future__ import annotations

from worldsize.planning.derive import derive
from worldsize.planning.localise import localise
from worldsize.planning.model import Derivation, Interface, Plan, StepPlan, Topology, Training

__all__ = ["Derivation", "Interface", "Plan", "StepPlan", "Topology", "Training", "derive", "localise"]

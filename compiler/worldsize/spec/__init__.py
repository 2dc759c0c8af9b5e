"""The declarative spec: its schema, its typed model, and the loader between the two."""

from __future__ import annotations

from worldsize.spec.load import from_document, is_spec, load
from worldsize.spec.model import (
    ComputeProfile,
    Distribution,
    Located,
    Parallelism,
    Scale,
    Schedule,
    Spec,
    Step,
)

__all__ = [
    "ComputeProfile",
    "Distribution",
    "Located",
    "Parallelism",
    "Scale",
    "Schedule",
    "Spec",
    "Step",
    "from_document",
    "is_spec",
    "load",
]

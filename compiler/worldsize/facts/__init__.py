"""Facts as data files, each row with its source: VM sizes, optimizers, frameworks. See README.md."""

from __future__ import annotations

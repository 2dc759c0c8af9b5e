"""Facts as data files, each row with its source: VM sizes, CUDA builds, optimizers. See README.md."""

from __future__ import annotations

"""The options of a component's step, as its entry script gets them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml


def make_options(component: Path, **given: Any) -> argparse.Namespace:
    """What the inputs and outputs of a component are by default, with what is given."""
    inputs = yaml.safe_load(component.read_text(encoding="utf-8"))["inputs"]
    return argparse.Namespace(**{name: port.get("default", "") for name, port in inputs.items()} | given)

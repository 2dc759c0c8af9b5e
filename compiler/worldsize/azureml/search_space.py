"""The distributions of a search space, as azure-ai-ml names them (_schema/_sweep/search_space.py)."""

from __future__ import annotations

from collections.abc import Mapping

# The settings of each distribution beside `type`.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "loguniform": ("min_value", "max_value"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "lognormal": ("mu", "sigma"),
    "qlognormal": ("mu", "sigma", "q"),
}
# Microsoft Learn, "Hyperparameter tuning a model": what Bayesian sampling supports.
BAYESIAN = ("choice", "uniform", "quniform")

"""The optional functions in the file of the user's model: ``loss``, ``metrics`` and ``prepare``.

They are looked up by name in the file that ``model: path/to/file.py:function`` names::

    def loss(outputs, targets): ...            # the mean loss over samples, 0-d
    def metrics(outputs, targets): ...         # {name: number} of the whole validation split, NumPy arrays
    def prepare(inputs, generator): ...        # what the model gets for inputs; random only with a generator

Their parameters are checked when the file is loaded; nothing here knows a framework.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wsmetrics.names import METRICS
from wsshards.errors import UserError
from wstrain.user_code import MODULE, load_function, locate_error, summarize_error

LOSS, METRICS_HOOK, PREPARE = "loss", "metrics", "prepare"
_CALLS = {
    LOSS: "loss(outputs, targets)",
    METRICS_HOOK: "metrics(outputs, targets)",
    PREPARE: "prepare(inputs) or prepare(inputs, generator)",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class Hooks:
    """The functions that a user's file has beside the model's; None for those that it does not have.

    Attributes:
        file: its name, for messages.
        loss: outputs and targets of a micro-batch to their mean loss.
        metrics: outputs and targets of the validation split to numbers by name.
        prepare: inputs of a micro-batch to what the model is called with.
        is_random: whether ``prepare`` takes a generator.
    """

    file: str
    loss: Callable[..., Any] | None = None
    metrics: Callable[..., Any] | None = None
    prepare: Callable[..., Any] | None = None
    is_random: bool = False

    def __deepcopy__(self, memo: object) -> Hooks:
        """Return itself: functions are not copied with a model."""
        return self

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the hook ``name``.

        Raises:
            UserError: it fails; the help has the line in the user's file.
        """
        try:
            return getattr(self, name)(*arguments)
        except UserError:
            raise
        except Exception as error:
            message = f"`{name}` in `{self.file}` raised {summarize_error(error)}"
            raise UserError(message, locate_error(error)) from error

    def call_prepare(self, inputs: Any, generator: Any) -> Any:
        """Call ``prepare``; ``generator`` is None outside the training."""
        return self.call(PREPARE, inputs, generator) if self.is_random else self.call(PREPARE, inputs)

    def call_metrics(self, outputs: Any, targets: Any, task: str) -> dict[str, float]:
        """Call ``metrics`` with arrays of the whole validation split, and check what it returns.

        Raises:
            UserError: it fails, or returns something else than numbers by new names.
        """
        returned = self.call(METRICS_HOOK, outputs, targets)
        if not isinstance(returned, Mapping):
            raise self._wrong(f"returned `{type(returned).__name__}`, not a dictionary of numbers by name")
        values: dict[str, float] = {}
        for name, value in returned.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise self._wrong(f"returned the name {name!r:.60}", "use letters, digits and underscores")
            if name in METRICS[task]:
                raise self._wrong(f"returned `{name}`, which every training of this task has", "rename it")
            try:
                values[name] = float(value)
            except (TypeError, ValueError):
                raise self._wrong(f"returned {value!r:.60} for `{name}`, which is not a number") from None
        return values

    def _wrong(self, message: str, help_: str | None = None) -> UserError:
        return UserError(f"`{METRICS_HOOK}` in `{self.file}` {message}", help_)


def load_hooks(model: str) -> Hooks | None:
    """Return the hooks in the file that ``model`` names; None if it names no file, or a file without any.

    Raises:
        UserError: the file cannot be loaded, or a hook cannot be called as it is.
    """
    if ".py:" not in model:
        return None
    load_function(model)
    file = model.rpartition(":")[0]
    names = vars(sys.modules[MODULE])
    # A class or a module of that name is not meant as a hook.
    found = {
        name: names[name] for name in _CALLS if callable(names.get(name)) and not inspect.isclass(names[name])
    }
    found = {name: hook for name, hook in found.items() if name != model.rpartition(":")[2]}
    is_random = False
    for name, hook in found.items():
        accepts_two = _accepts(hook, 2)
        if name == PREPARE:
            is_random = accepts_two
        if not (accepts_two or (name == PREPARE and _accepts(hook, 1))):
            raise UserError(
                f"`{name}` in `{file}` cannot be called as `{_CALLS[name]}`",
                f"its parameters are `{inspect.signature(hook)}`; rename it if it is not meant as a hook",
            )
    return Hooks(file, **found, is_random=is_random) if found else None


def _accepts(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def warn_unless_mean(hooks: Hooks, rows: int, whole: float, halves: tuple[float, float]) -> None:
    """Warn if the loss of samples is not the mean of the losses of both their halves, up to rounding.

    Args:
        hooks: the user's.
        rows: number of the samples.
        whole: loss of all.
        halves: loss of each half.
    """
    mean = sum(halves) / 2
    if math.isfinite(mean) and not math.isclose(whole, mean, rel_tol=1e-3, abs_tol=1e-6):
        warnings.warn(
            f"`loss` in `{hooks.file}` is {whole:.4g} for {rows} samples, but the mean of the losses of their"
            f" halves is {mean:.4g}: it is not a mean over samples, so the curve depends on the batch size"
            " per device",
            stacklevel=2,
        )

"""The interface that `absl.app.run` makes of the `flags.DEFINE_…` of all modules."""

from __future__ import annotations

import ast
from pathlib import PurePath

from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import Module, constant_value, find_passed, keyword_argument
from worldsize.scripts.program import is_known_package
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate

_DEFINE = "absl.flags.DEFINE_"
_DEFINE_FLAGS = ("ml_collections", "tensorflow.python", "absl.testing")
_KINDS: dict[str, type[int | float]] = {"integer": int, "float": float}
# What absl itself defines.
_OWN = (
    "help", "helpshort", "helpfull", "helpxml", "flagfile", "undefok", "only_check_args", "pdb",
    "pdb_post_mortem", "run_with_pdb", "run_with_profiling", "profile_file", "use_cprofile_for_profiling",
    "v", "verbosity", "logger_levels", "stderrthreshold", "log_dir", "logtostderr", "alsologtostderr",
    "showprefixforinfo",
)  # fmt: skip


def read_absl(reached: Reached) -> Interface | None:
    """The interface of the only `app.run(main)`; None if there is not exactly one."""
    starts = reached.called("absl.app.run")
    if len(starts) != 1 or not reached.surely_runs(*starts[0]):
        return None
    module, start = starts[0]
    if start.keywords or any(name in ("absl.flags.FLAGS", "FLAGS") for name, _ in module.calls):
        return None
    interface = Interface(abbreviates=False)
    interface.options += [Option((f"--{name}", f"-{name}"), name, module, start, 0) for name in _OWN]
    interface.positionals.append(Option((), "argv", module, start, 0, None, optional_words=True))
    beside = {
        part for other in reached.modules for part in PurePath(other.source.path).with_suffix("").parts[-3:]
    }
    for reader in reached.modules:
        # Another package may define flags too.
        interface.closed &= all(
            level
            or name.partition(".")[0] in beside
            or (is_known_package(name, 0) and not name.startswith(_DEFINE_FLAGS))
            for name, level, _ in reader.imports
        )
        for name, call in reader.calls:
            if name.startswith(_DEFINE):
                _read_flag(reached, interface, reader, call, name.removeprefix(_DEFINE))
    marks = reached.called("absl.flags.mark_flag_as_required", "absl.flags.mark_flags_as_required")
    values = [evaluate(reached, other, word) for other, mark in marks for word in mark.args[:1]]
    required = {word for value in values for word in (value if isinstance(value, tuple) else (value,))}
    for option in interface.options:
        option.required |= option.name in required
    return interface


def _read_flag(code: Definitions, interface: Interface, module: Module, call: ast.Call, kind: str) -> None:
    name = evaluate(code, module, find_passed(call, 0, "name"))
    if not isinstance(name, str) or kind in ("flag", "alias"):
        interface.closed = False
        return
    truth = kind in ("bool", "boolean")
    flags = tuple(f"{dash}{word}" for word in (name, f"no{name}")[: 1 + truth] for dash in ("--", "-"))
    option = Option(flags, name, module, call, 0 if truth else 1, kind=_KINDS.get(kind))
    choices = find_passed(call, 2, "enum_values") if kind == "enum" else None
    values = evaluate(code, module, choices)
    option.choices = values if isinstance(values, tuple) else None
    option.required = constant_value(keyword_argument(call, "required")) is True
    interface.options.append(option)

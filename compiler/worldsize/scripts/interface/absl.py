"""The interface that `absl.app.run` makes of the `flags.DEFINE_…` of all modules."""

from __future__ import annotations

import ast
from pathlib import PurePath

from worldsize.scripts.definitions import Definitions
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import is_known_package
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import evaluate

_DEFINE = "absl.flags.DEFINE_"
_DEFINE_FLAGS = ("ml_collections", "tensorflow.python", "absl.testing")
_TRUTHS = ("bool", "boolean")
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
    starts = [(module, call) for module in reached.modules for call in module.called("absl.app.run")]
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
            level or name.partition(".")[0] in beside or _defines_none(name)
            for name, level, _ in reader.imports
        )
        for name, call in reader.calls:
            if name.startswith(_DEFINE):
                _read_flag(reached, interface, reader, call, name.removeprefix(_DEFINE))
    required = {word for other in reached.modules for word in _list_required(reached, other)}
    for option in interface.options:
        option.required |= option.name in required
    return interface


def _defines_none(name: str) -> bool:
    """Whether a package surely defines no flags of absl."""
    return is_known_package(name, 0) and not name.startswith(_DEFINE_FLAGS)


def _read_flag(code: Definitions, interface: Interface, module: Module, call: ast.Call, kind: str) -> None:
    name = evaluate(code, module, call.args[0] if call.args else keyword_argument(call, "name"))
    if not isinstance(name, str) or kind in ("flag", "alias"):
        interface.closed = False
        return
    truth = kind in _TRUTHS
    flags = tuple(
        f"{dash}{word}" for word in (name, *((f"no{name}",) if truth else ())) for dash in ("--", "-")
    )
    option = Option(flags, name, module, call, 0 if truth else 1, kind=_KINDS.get(kind))
    choices = call.args[2] if len(call.args) > 2 else keyword_argument(call, "enum_values")
    values = evaluate(code, module, choices) if kind == "enum" else None
    option.choices = values if isinstance(values, tuple) else None
    option.required = constant_value(keyword_argument(call, "required")) is True
    interface.options.append(option)


def _list_required(code: Definitions, module: Module) -> list[object]:
    """The flags that must be given: of `mark_flag_as_required` and `mark_flags_as_required`."""
    marks = module.called("absl.flags.mark_flag_as_required", "absl.flags.mark_flags_as_required")
    values = [evaluate(code, module, argument) for call in marks for argument in call.args[:1]]
    return [word for value in values for word in (value if isinstance(value, tuple) else (value,))]

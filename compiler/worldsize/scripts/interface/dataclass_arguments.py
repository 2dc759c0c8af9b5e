"""The interface that `HfArgumentParser` of transformers makes of dataclasses."""

from __future__ import annotations

import ast

from worldsize.scripts.interface.add_argument import read_option
from worldsize.scripts.interface.annotations import Class, find_class, read_annotation
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.interface.training_arguments import CLASSES, list_training_arguments
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.reached import Reached

_PARSES = ("parse_args_into_dataclasses", "parse_args", "parse_known_args")
_FILES = ("parse_json_file", "parse_yaml_file", "parse_dict")
_PLAIN = frozenset({None, "return_remaining_strings", "look_for_args_file"})
_FIELDS = ("field", "HfArg")


def read_dataclass_arguments(reached: Reached) -> Interface | None:
    """The interface of the one `HfArgumentParser`; None where there is none or several."""
    made = [
        (module, call)
        for module in reached.modules
        for call in module.called("transformers.HfArgumentParser")
    ]
    parses = [
        (module, call)
        for module in reached.modules
        for call in module.called(*_PARSES)
        if reached.runs(module, call)
    ]
    if len(made) != 1 or not parses or not reached.surely_runs(*made[0]):
        return None
    module, call = made[0]
    interface = Interface(reads_files=any(each.called(*_FILES) for each in reached.modules))
    for other, each in parses:
        if each.args or {one.arg for one in each.keywords} - _PLAIN:
            return None
        if not (interface.reads_files or reached.surely_runs(other, each)):
            return None
        rest = constant_value(keyword_argument(each, "return_remaining_strings"))
        known = isinstance(each.func, ast.Attribute) and each.func.attr == "parse_known_args"
        interface.ignores_others |= known or rest not in (None, False)
    given = call.args[0] if call.args else keyword_argument(call, "dataclass_types")
    given = _find_types(module, given)
    types = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    for node in types:
        found = find_class(reached, module, node)
        if found is None and node is not None and module.name_of(node) in CLASSES:
            interface.options += list_training_arguments(module, node)
            interface.certain = False
        elif found is None or not _add_fields(reached, interface, found):
            interface.closed = False
    interface.closed &= len(call.keywords) <= (not call.args)
    _add_others(reached, interface, module, call)
    interface.options.append(Option(("-h", "--help"), "help", module, call, 0, 0))
    return interface


def _find_types(module: Module, given: ast.expr | None) -> ast.expr | None:
    """The tuple or list of a variable that is set once."""
    stores = module.stores(given.id) if isinstance(given, ast.Name) else ()
    made = module.parents.get(stores[0]) if len(stores) == 1 else None
    listed = made.value if isinstance(made, ast.Assign) else None
    return listed if isinstance(listed, ast.List | ast.Tuple) else given


def _add_others(reached: Reached, interface: Interface, module: Module, maker: ast.Call) -> None:
    """What is added to the parser by itself, where it is a variable."""
    made = module.parents.get(maker)
    names = {ast.unparse(target) for target in made.targets} if isinstance(made, ast.Assign) else set()
    for other in reached.modules:
        for call in other.called("add_argument", "add_argument_group"):
            if not reached.runs(other, call):
                continue
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            named = owner is not None and ast.unparse(owner) in names
            if other is module and named and module.name_of(call.func).endswith(".add_argument"):
                read_option(interface, module, call, sure=reached.surely_runs(module, call))
            else:
                interface.closed = False


def _add_fields(reached: Reached, interface: Interface, found: Class, depth: int = 6) -> bool:
    """Add the fields of a dataclass and of those it is derived from; False where not all are known."""
    module, node = found
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    known = any(module.name_of(each).rpartition(".")[2] == "dataclass" for each in decorators)
    for base in node.bases:
        above = find_class(reached, module, base)
        if above is None and module.name_of(base) in CLASSES:
            interface.options += list_training_arguments(module, base)
            interface.certain = False
            continue
        known &= above is not None and depth > 0 and _add_fields(reached, interface, above, depth - 1)
    inherited = list(interface.options) if node.bases else []
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            option = _read_field(reached, module, each, each.target.id)
            again = [one for one in inherited if one.name == each.target.id]
            for one in again:
                interface.options.remove(one)
            if option is not None:
                interface.options.append(option)
    return known


def _read_field(reached: Reached, module: Module, node: ast.AnnAssign, name: str) -> Option | None:
    if "ClassVar" in ast.unparse(node.annotation):
        return None
    annotation = read_annotation(reached, module, node.annotation)
    default, more = node.value, False
    option = Option(_spell(f"--{name}"), name, module, node)
    if isinstance(default, ast.Call) and module.name_of(default.func).rpartition(".")[2] in _FIELDS:
        if constant_value(keyword_argument(default, "init")) is False:
            return None
        more = any(one.arg in ("default_factory", None) for one in default.keywords)
        aliases = "aliases" in ast.unparse(default)
        default = keyword_argument(default, "default")
        if aliases:
            return Option(option.flags, name, module, node, 0, None)
    annotation.describe(option)
    if annotation.boolean:
        option.least = 0
        if constant_value(default) is True and not annotation.optional:
            option.flags += _spell(f"--no_{name}")
        return option
    if annotation.many:
        option.most = None
    option.required = default is None and not more
    return option


def _spell(flag: str) -> tuple[str, ...]:
    """A flag, also with hyphens."""
    hyphened = "--" + flag[2:].replace("_", "-")
    return (flag,) if flag == hyphened else (flag, hyphened)

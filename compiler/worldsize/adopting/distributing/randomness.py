"""Random numbers: the same for weights and splits, others for dropout and augmentation."""

from __future__ import annotations

import ast

from worldsize.adopting.distributing.group import find_main
from worldsize.adopting.distributing.wrapping import Wrapped
from worldsize.adopting.model import find_role
from worldsize.adopting.options.parsers import Parser, find_option, find_read
from worldsize.adopting.source.header import Header
from worldsize.adopting.source.script import Script
from worldsize.adopting.training.profile import list_sample_draws
from worldsize.scripts.module import constant_value, find_alias, keyword_argument

_SEEDS = ("manual_seed", "seed_everything", "set_seed", "random.seed", "seed")
# scikit-learn and datasets draw by NumPy too.
_OF_NUMPY = ("train_test_split", "numpy.random.permutation", "numpy.random.shuffle")
_APART = "dropout and augmentation differ from process to process"
_SPLITS = ("random_split", "train_test_split", "randperm", "shuffle", "permutation")


def agree_on_random_numbers(
    script: Script, header: Header, *, by_place: bool = False, of_torch: bool = True
) -> None:
    """Seed a script that splits its rows at random without a seed: each process would split them its way.

    ``by_place`` says that a process takes its rows by their places, so that all have to make the same rows.
    """
    if script.module.called(*_SEEDS):
        return
    makes = (*_SPLITS, "torch.rand", "torch.randn", "torch.randint") if by_place else _SPLITS
    loose = [
        call
        for call in script.module.called(*makes)
        if not any(keyword_argument(call, name) for name in ("random_state", "generator", "seed"))
        and (of_torch or script.module.name_of(call.func).endswith(_OF_NUMPY))
    ]
    if not loose:
        return
    seeds = []
    if of_torch:
        header.imports |= {"import torch": None}
        seeds = ["torch.manual_seed(0)"]
    if any(script.module.name_of(call.func).endswith(_OF_NUMPY) for call in loose):
        header.imports |= {} if "numpy" in script.module.names.values() else {"import numpy as np": None}
    for module, call in (("numpy", "random.seed(0)"), ("random", "seed(0)")):
        alias = find_alias(script.module, module)
        alias = alias or ("np" if module == "numpy" and "import numpy as np" in header.imports else None)
        if alias is not None:
            seeds.append(f"{alias}.{call}")
    header.constants += seeds
    script.note(loose[0].lineno, None, "every process has to draw the same split of the rows", seeds)


def draw_apart(script: Script, header: Header, wrapped: Wrapped, parser: Parser, *, random: bool) -> None:
    """Give each process random numbers of its own once the weights are made, where dropout draws them."""
    if not random or find_main(script) is wrapped.anchor:
        return
    for call in script.module.called("torch.manual_seed"):
        seed = call.args[0] if call.args else None
        if seed is None:
            continue
        text = _name_seed(script, parser, wrapped, seed)
        if text is None and find_option(parser, seed) is not None:
            text = "torch.initial_seed()"  # what the option has set
        if text is not None:
            line = f"torch.manual_seed({text} + {header.names.rank})"
            script.insert_after(wrapped.anchor, [line], None, _APART)
        return


def draw_samples_apart(script: Script, header: Header, wrapped: Wrapped, parser: Parser) -> None:
    """Give each process numbers of its own from `random` and NumPy, where samples are changed by them.

    Workers of a loader draw apart already: PyTorch seeds them by its own random numbers.
    """
    drawn = list(list_sample_draws(script.module))
    for library in ("random", "numpy.random"):
        draws = [call for call in drawn if script.module.name_of(call.func).rpartition(".")[0] == library]
        made = next((call for call in script.module.called(f"{library}.seed") if call.args), None)
        if not draws or made is None:
            continue
        seed = _name_seed(script, parser, wrapped, made.args[0])
        if seed is None or _draws_later(script, library, draws, wrapped.anchor):
            message = f"`{script.written(draws[0].func)}` changes the samples of all processes alike"
            help_ = f"add `{header.names.rank}` to the seed behind what all have to draw alike"
            script.leave(draws[0], message, help_)
            continue
        line = f"{script.written(made.func)}({seed} + {header.names.rank})"
        script.insert_after(wrapped.anchor, [line], None, _APART)


def _draws_later(script: Script, library: str, draws: list[ast.Call], anchor: ast.stmt) -> bool:
    """Whether the script may draw something else behind a statement, such as an order of the rows."""
    scopes = (script.scope(anchor), script.module.tree)
    others = [
        call
        for name, call in script.module.calls
        if name.rpartition(".")[0] == library and call not in draws and not name.endswith(".seed")
    ]
    return any(script.scope(call) not in scopes or call.lineno > anchor.lineno for call in others)


def _name_seed(script: Script, parser: Parser, wrapped: Wrapped, seed: ast.expr) -> str | None:
    """A seed as it is written where the model is made; None where it has no name there."""
    if (option := find_option(parser, seed)) is not None and script.scope(seed) is not wrapped.scope:
        sure = option.flag.type == "int" and option.flag.default is not None
        return find_read(script, parser, wrapped.anchor, option.name) if sure else None
    value = script.value(seed)
    text = script.written(seed) if script.scope(seed) in (wrapped.scope, script.module.tree) else None
    if isinstance(constant_value(value), int) and (not isinstance(seed, ast.Name) or text is None):
        return str(constant_value(value))
    return text


def find_seed(script: Script, parser: Parser, node: ast.expr) -> str | None:
    """The script's option for its seed, or the constant that it seeds with, as both are written at a node."""
    for option in parser.options.declared:
        if option.flag.role == "seed" and option.flag.type == "int" and option.flag.default is not None:
            return find_read(script, parser, node, option.name)
    for call in script.module.called(*_SEEDS):
        seed = call.args[0] if call.args else None
        if isinstance(seed, ast.Name) and find_role(seed.id) == "seed":
            stored = script.module.stores(seed.id)
            if len(stored) == 1 and script.scope(stored[0]) is script.module.tree:
                return seed.id if stored[0].lineno < node.lineno else None
    return None


def draw_rows_apart(script: Script, header: Header, wrapped: Wrapped, libraries: tuple[str, ...]) -> None:
    """Let each process draw batches of its own, once the weights are made."""
    seed = f"torch.initial_seed() + {header.names.rank}"
    lines = [f"torch.manual_seed({seed})"]
    for module, call in (("numpy", "random.seed(({seed}) % 2**32)"), ("random", "seed({seed})")):
        alias = find_alias(script.module, module)
        if module in libraries and alias is not None:
            lines.append(f"{alias}.{call.format(seed=seed)}")
    script.insert_after(wrapped.anchor, lines, "WS903", "each process draws batches of its own")

"""One-line edits of a training script, with the indentation and the names that it uses.

Each function returns None where the edit is not certain to fit. Whether a job should do what it does after
the edit is for its author to say, so most of these fixes are not safe.
"""

from __future__ import annotations

import ast

from worldsize.base.problem import Fix
from worldsize.base.span import Span
from worldsize.scripts.bindings import find_owner, is_parameter, read_bindings
from worldsize.scripts.module import Module, find_alias, find_mentions, find_passed, list_bound_names
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import GLOBAL_NAMES, LOCAL_NAMES

HOROVOD = ("horovod.torch", "horovod.tensorflow", "horovod.tensorflow.keras", "horovod.keras")


def guard_by_rank(program: Program, module: Module, call: ast.Call) -> Fix | None:
    """Put a statement that is only this call under a condition on the first process."""
    statement = module.parents.get(call)
    if not isinstance(statement, ast.Expr) or not _has_own_lines(module, statement):
        return None
    condition = _first_rank(program, module, statement)
    strings = [inner for inner in ast.walk(statement) if isinstance(inner, ast.Constant | ast.JoinedStr)]
    if condition is None or any(text.lineno != text.end_lineno for text in strings):
        return None
    indent = _indent(module, statement)
    step = "\t" if indent.startswith("\t") else "    "
    span, source = module.full_span(statement), module.source
    start, end = source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
    written = source.text[start:end]
    first, *more = written.split("\n")
    lines = [f"if {condition}:", f"{indent}{step}{first}", *(step + line if line else line for line in more)]
    return Fix(span, "\n".join(lines), safe=False)


def call_set_epoch(module: Module, sampler: ast.Call) -> Fix | None:
    """Call ``set_epoch`` of a sampler at the start of each epoch, where one function has both."""
    named = _name_sampler(module, sampler)
    if named is None:
        return None
    name, assignment = named
    scope, stores = find_owner(module, assignment), module.stores(name.partition(".")[0])
    if len([node for node in stores if find_owner(module, node) is scope]) != 1:
        return None
    block = module.parents[assignment]
    for loop in module.kinds.get(ast.For, ()):
        target, first = loop.target, loop.body[0]
        if (
            isinstance(target, ast.Name)
            and target.id != "_"
            and any("epoch" in word.lower() for word in (target.id, *find_mentions(loop.iter)))
            and loop.lineno > assignment.lineno
            and find_owner(module, loop) is scope
            and any(above is block for above, _ in module.ancestors(loop))
            and _has_own_lines(module, first)
        ):
            line = f"{name}.set_epoch({target.id})\n{_indent(module, first)}"
            return Fix(_start(module, first), line, safe=False)
    return None


def add_import(module: Module, statement: str, *, safe: bool) -> Fix | None:
    """Import a module before the other imports."""
    body = [statement for statement in module.tree.body if not _stays_first(statement)]
    imports = [statement for statement in body if isinstance(statement, ast.Import | ast.ImportFrom)]
    return _put_before(module, next(iter(imports or body), None), statement, safe=safe)


def call_horovod_init(module: Module) -> Fix | None:
    """Call ``hvd.init()`` after the imports."""
    body = [statement for statement in module.tree.body if not _stays_first(statement)]
    later = (statement for statement in body if not isinstance(statement, ast.Import | ast.ImportFrom))
    alias = find_alias(module, *HOROVOD)
    return _put_before(module, next(later, None), f"{alias}.init()", safe=False) if alias else None


def _put_before(module: Module, first: ast.stmt | None, line: str, *, safe: bool) -> Fix | None:
    """Add a line to the file before one of its statements."""
    if first is None or not _has_own_lines(module, first, alone=False):
        return None
    return Fix(_start(module, first), f"{line}\n", safe=safe)


def choose_own_gpu(module: Module, node: ast.AST) -> Fix | None:
    """Use the GPU of the process in place of the first: in a text, or in a call of ``cuda()``."""
    span = module.full_span(node)
    line = module.source.line(span.line)
    written = line[span.column - 1 : span.end_column - 1]
    if written.strip("\"'") in ("cuda", "cuda:0") and span.line == span.end_line:
        return Fix(span, "f\"cuda:{os.environ['LOCAL_RANK']}\"", safe=False)
    if isinstance(node, ast.Call) and module.source.line(span.end_line)[: span.end_column - 1].endswith("()"):
        inside = Span(span.path, span.end_line, span.end_column - 1, span.end_line, span.end_column - 1)
        return Fix(inside, 'int(os.environ["LOCAL_RANK"])', safe=False)
    return None


def divide_rows(module: Module, loader: ast.Call) -> Fix | None:
    """Give a loader a sampler for its rows in place of ``shuffle=True``."""
    shuffle = next(keyword for keyword in loader.keywords if keyword.arg == "shuffle")
    if not _has_own_arguments(module, loader):
        return None
    rows, bound = find_passed(loader, 0, "dataset"), list_bound_names(module) or set()
    makers = {"DistributedSampler": "DistributedSampler", "torch": "torch.utils.data.DistributedSampler"}
    maker = next((makers[name] for name in makers if name in bound), None)
    text = ast.get_source_segment(module.text, rows) if rows is not None else None
    if text is None or "\n" in text or maker is None:
        return None
    return Fix(module.full_span(shuffle), f"sampler={maker}({text})", safe=False)


def add_argument(module: Module, call: ast.Call, argument: str) -> Fix | None:
    """Add an argument to a call behind the others."""
    if not _has_own_arguments(module, call):
        return None
    last = max((*call.args, *(keyword.value for keyword in call.keywords)), key=module.full_span)
    source, end, whole = module.source, module.full_span(last), module.full_span(call)
    behind = source.offset(end.end_line, end.end_column)
    rest = source.text[behind : source.offset(whole.end_line, whole.end_column)]
    if rest.strip(" ,\n") != ")":
        return None
    place = Span(end.path, end.end_line, end.end_column, end.end_line, end.end_column)
    return Fix(place, f", {argument}", safe=False)


def _has_own_arguments(module: Module, call: ast.Call) -> bool:
    """Whether all arguments are written in the call, none in a dictionary that is passed to it."""
    whole = module.full_span(call)
    spans = [module.full_span(keyword) for keyword in call.keywords]
    return all(
        (whole.line, whole.column) <= (span.line, span.column)
        and (span.end_line, span.end_column) <= (whole.end_line, whole.end_column)
        for span in spans
    )


def _first_rank(program: Program, module: Module, statement: ast.stmt) -> str | None:
    """An expression that is true on the first process only."""
    scope = find_owner(module, statement)
    for name in GLOBAL_NAMES:
        first = module.once(_find_binding, scope, name)
        if first is not None and first < statement.lineno:
            return f"{name} == 0"
    horovod = find_alias(module, *HOROVOD)
    if horovod is not None:
        return f"{horovod}.rank() == 0"
    if program.kind != "pytorch":
        return None
    if program.says("init_process_group") and not program.says("destroy_process_group"):
        for package, inner in (("torch.distributed", ""), ("torch", ".distributed")):
            if (alias := find_alias(module, package)) is not None:
                return f"{alias}{inner}.get_rank() == 0"
    return 'int(os.environ["RANK"]) == 0'


def _find_binding(module: Module, scope: ast.AST, name: str) -> int | None:
    """The first line that binds a name in a scope; None if nothing does, or it is bound to the local rank."""
    if is_parameter(scope, name):
        return 0
    names = read_bindings(module).names
    inner, outer = names.get((scope, name), []), names.get((module.tree, name), [])
    if any(word in LOCAL_NAMES for binding in (*inner, *outer) for word in find_mentions(binding.value)):
        return None
    return 0 if outer else min((binding.target.lineno for binding in inner), default=None)


def _name_sampler(module: Module, sampler: ast.Call) -> tuple[str, ast.Assign] | None:
    """The expression for a sampler, and the statement after which it holds."""
    above, suffix = module.parents.get(sampler), ""
    if isinstance(above, ast.keyword) and above.arg == "sampler":
        loader = module.parents.get(above)
        if not isinstance(loader, ast.Call) or not module.name_of(loader.func).endswith("DataLoader"):
            return None
        above, suffix = module.parents.get(loader), ".sampler"
    targets = above.targets if isinstance(above, ast.Assign) else []
    if isinstance(above, ast.Assign) and len(targets) == 1 and isinstance(targets[0], ast.Name):
        return targets[0].id + suffix, above
    return None


def _stays_first(statement: ast.stmt) -> bool:
    """Whether nothing may stand before a statement: a docstring, or a ``__future__`` import."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _has_own_lines(module: Module, statement: ast.stmt, *, alone: bool = True) -> bool:
    """Whether nothing stands before a statement on its line and, if ``alone``, only a comment after it."""
    if getattr(statement, "decorator_list", None):
        return False
    span = module.full_span(statement)
    after = module.source.line(span.end_line)[span.end_column - 1 :].lstrip()
    return not _indent(module, statement).strip() and (not alone or after[:1] in ("", "#"))


def _indent(module: Module, statement: ast.stmt) -> str:
    span = module.span(statement)
    return module.source.line(span.line)[: span.column - 1]


def _start(module: Module, statement: ast.stmt) -> Span:
    span = module.span(statement)
    return Span(span.path, span.line, span.column, span.line, span.column)

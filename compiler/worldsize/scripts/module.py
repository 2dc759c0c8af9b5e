"""One Python file for all that read it: parsed once, imported names resolved, every node with its parent."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

from msgspec import Struct, field

from worldsize.base.source import Source
from worldsize.base.span import Span

T = TypeVar("T")
_SKIPPED = frozenset({"arg", "attr", "ctx", "id", "kind", "op", "ops"})  # texts and operators are not nodes
_TEXTS = frozenset({"arg", "asname", "attr", "id", "module", "name", "rest", "value"})  # fields with texts
_WORDS: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.Constant: "value",
}
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


class Module(Struct, eq=False):
    """A parsed file. ``names`` maps what imports bind: ``dist`` to ``torch.distributed``."""

    source: Source
    tree: ast.Module
    nodes: list[ast.AST] = field(default_factory=list)  # in the order of `ast.walk`, without operators
    kinds: dict[type[ast.AST], list[Any]] = field(default_factory=dict)  # the same by their class
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[str, int, ast.stmt]] = field(default_factory=list)  # full name, level, statement
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)
    # by the last part of the name
    callers: dict[str, list[tuple[str, ast.Call]]] = field(default_factory=dict)
    memo: dict[object, Any] = field(default_factory=dict)  # see :meth:`once`

    @property
    def text(self) -> str:
        """The whole file."""
        return self.source.text

    def span(self, node: ast.AST) -> Span:
        """The place of a node; its first line if it has several."""
        whole = self.full_span(node)
        line, end = whole.line, whole.end_column
        end = end if whole.end_line == line else len(self.source.line(line)) + 1
        return Span(whole.path, line, whole.column, line, end)

    def full_span(self, node: ast.AST) -> Span:
        """The place of a node on all its lines, for an edit."""
        line, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        return Span(self.source.path, line, self._column(line, start), last, self._column(last, end))

    def _column(self, line: int, offset: int) -> int:
        """Python counts bytes, we count characters."""
        text = self.source.line(line)
        return (offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))) + 1

    def name_of(self, node: ast.AST) -> str:
        """``torch.distributed.get_rank`` for ``dist.get_rank``; ``?.fit`` where the start is not a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        first = self.names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([first, *reversed(parts)])

    def ancestors(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each node above, with the child through which it was reached."""
        while node in self.parents:
            above = self.parents[node]
            yield above, node
            node = above

    def called(self, *endings: str) -> list[ast.Call]:
        """The calls of these names: ``fit`` finds ``fit()`` and ``model.fit()``."""
        return self.once(_find_called, endings)

    def once(self, work: Callable[..., T], *arguments: object) -> T:
        """The result of a function for this file, calculated once for all rules and all starts of it."""
        return recall(self.memo, work, self, *arguments)

    def around(self, starts: Iterable[ast.AST]) -> set[ast.AST]:
        """These nodes and all nodes around them."""
        nodes: set[ast.AST] = set()
        for start in starts:
            node: ast.AST | None = start
            while node is not None and node not in nodes:
                nodes.add(node)
                node = self.parents.get(node)
        return nodes

    def stores(self, name: str) -> Sequence[ast.Name]:
        """Where a variable is bound or deleted."""
        return [
            use
            for use in self.mentions(name)
            if isinstance(use, ast.Name) and not isinstance(use.ctx, ast.Load)
        ]

    def mentions(self, word: str) -> Sequence[ast.AST]:
        """The names, attributes, parameters and texts that equal a word."""
        return self.once(_words).get(word, ())

    def holding(self, test: Callable[[str], object]) -> set[ast.AST]:
        """All nodes that contain a name, attribute, parameter or text that passes a test."""
        words = self.once(_words)
        passing = [word for word in words if test(word)]
        return self.around(node for word in passing for node in words[word])


def recall(memo: dict[object, Any], work: Callable[..., T], subject: object, *arguments: object) -> T:
    """The result of a function for a subject, kept in the ``memo`` of the subject."""
    key = (work, *arguments)
    if key not in memo:
        memo[key] = work(subject, *arguments)
    result: T = memo[key]
    return result


def keep(work: Callable[[Module], T]) -> Callable[[Module], T]:
    """Keep the result of a function for a file."""
    return wraps(work)(lambda module: module.once(work))


def parse_module(source: Source) -> Module | None:
    """Parse a file; None if this interpreter cannot."""
    try:
        module = Module(source, parse_text(source.text))
        _index(module)
    except (SyntaxError, RecursionError):
        return None
    return module


def parse_text(text: str | bytes) -> ast.Module:
    """Parse Python without its warnings.

    Raises:
        SyntaxError: It is not the Python of this interpreter, or it is nested too deeply.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (ValueError, RecursionError, MemoryError):
        raise SyntaxError("it is nested too deeply") from None


def _index(module: Module) -> None:
    _walk(module)
    for node in module.nodes if ast.Import in module.kinds or ast.ImportFrom in module.kinds else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                module.imports.append((alias.name, 0, node))
                top = alias.name.partition(".")[0]
                module.names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}" if node.module else alias.name
                module.imports.append((full, node.level, node))
                module.names[alias.asname or alias.name] = full
    for call in module.kinds.get(ast.Call, ()):
        if any(one.arg is None for one in call.keywords):
            call.keywords = [opened for one in call.keywords for opened in _open_keywords(module, one)]
        name = module.name_of(call.func)
        module.calls.append((name, call))
        module.callers.setdefault(name.rpartition(".")[2], []).append((name, call))


def _open_keywords(module: Module, keyword: ast.keyword) -> list[ast.keyword]:
    """The keywords that `**options` passes, if it is a dictionary that nothing else uses; else itself."""
    name = keyword.value.id if keyword.arg is None and isinstance(keyword.value, ast.Name) else None
    uses = [node for node in module.kinds[ast.Name] if node.id == name] if name is not None else []
    above = [module.parents.get(node) for node in uses]
    set_by = [parent for parent in above if isinstance(parent, ast.Assign) and parent.value not in uses]
    spread = [parent for parent in above if isinstance(parent, ast.keyword) and parent.arg is None]
    if len(set_by) != 1 or len(set_by) + len(spread) != len(uses):
        return [keyword]
    made = set_by[0].value
    if isinstance(made, ast.Call) and getattr(made.func, "id", "") == "dict" and not made.args:
        return made.keywords
    keys = made.keys if isinstance(made, ast.Dict) else [None]
    if not isinstance(made, ast.Dict) or not all(isinstance(constant_value(key), str) for key in keys):
        return [keyword]
    return [
        ast.keyword(str(constant_value(key)), value, **_place(key, value))
        for key, value in zip(keys, made.values, strict=True)
    ]


def _place(start: ast.AST | None, end: ast.expr) -> dict[str, Any]:
    """The position attributes of a node that begins and ends with these."""
    first = {name: getattr(start, name) for name in ("lineno", "col_offset")}
    return first | {name: getattr(end, name) for name in ("end_lineno", "end_col_offset")}


def _walk(module: Module) -> None:
    """Nodes, kinds and parents in one pass, the nodes breadth first."""
    nodes, kinds, parents = module.nodes, module.kinds, module.parents
    nodes.append(module.tree)
    for node in nodes:  # it grows
        kind = node.__class__
        if kind in kinds:
            kinds[kind].append(node)
        else:
            kinds[kind] = [node]
            _FIELDS.setdefault(kind, tuple(name for name in kind._fields if name not in _SKIPPED))
        for name in _FIELDS[kind]:
            value = getattr(node, name, None)
            if value.__class__ is list:
                children = [child for child in value if isinstance(child, ast.AST)]
                nodes += children
                for child in children:
                    parents[child] = node
            elif isinstance(value, ast.AST):
                nodes.append(value)
                parents[value] = node


def _find_called(module: Module, endings: tuple[str, ...]) -> list[ast.Call]:
    lasts = {ending.rpartition(".")[2] for ending in endings} & module.callers.keys()
    candidates = module.calls if len(lasts) > 1 else module.callers[lasts.pop()] if lasts else ()
    dotted = tuple(f".{ending}" for ending in endings)
    return [call for name, call in candidates if f".{name}".endswith(dotted)]


def _words(module: Module) -> dict[str, list[ast.AST]]:
    """Every name, attribute, parameter and text, with the nodes that have it."""
    words: dict[str, list[ast.AST]] = {}
    for kind, read in _WORDS.items():
        for node in module.kinds.get(kind, ()):
            word = getattr(node, read)
            if isinstance(word, str):
                words.setdefault(word, []).append(node)
    return words


def find_mentions(node: ast.AST | None) -> Iterator[str]:
    """Every name, attribute and text inside a node."""
    for inner in ast.walk(node) if node is not None else ():
        word = getattr(inner, _WORDS[type(inner)]) if type(inner) in _WORDS else None
        if isinstance(word, str):
            yield word


def keyword_argument(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def find_passed(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument that is passed at a position or by a name."""
    return call.args[position] if len(call.args) > position else keyword_argument(call, name)


def last_name(node: ast.AST | None) -> str:
    """``is_main`` of ``trainer.is_main`` and of ``is_main()``; empty for another expression."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def name_variable(node: ast.AST | None) -> str:
    """``self.model`` or ``loaders["train"]``, as written; empty for an expression that is not a variable."""
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript):
        inner = inner.value
    return ast.unparse(node) if node is not None and isinstance(inner, ast.Name) else ""


def constant_value(node: ast.AST | None) -> object:
    """The value of a literal, else None."""
    return node.value if isinstance(node, ast.Constant) else None


def variable_read(node: ast.AST) -> str | None:
    """The environment variable that a node reads: ``os.environ["X"]`` or ``getenv("X")``."""
    name: ast.AST | None = None
    if isinstance(node, ast.Subscript) and is_environment(node.value):
        name = node.slice
    elif isinstance(node, ast.Call) and node.args:
        called, function = last_name(node), node.func
        reads = called in ("get", "pop") and is_environment(getattr(function, "value", function))
        if called == "getenv" or reads:
            name = node.args[0]
    value = constant_value(name)
    return value if isinstance(value, str) else None


def is_environment(node: ast.AST) -> bool:
    """Whether it is ``os.environ``."""
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id in ("environ", "env")
    )


@keep
def list_packages(module: Module) -> set[str]:
    """The first words of what a file imports, without relative imports."""
    return {name.partition(".")[0] for name, level, _ in module.imports if not level}


def find_alias(module: Module, *packages: str) -> str | None:
    """The name under which a file imports one of these."""
    return next((alias for alias, full in module.names.items() if full in packages), None)


def list_block(above: ast.AST, statement: ast.AST) -> list[ast.stmt]:
    """The statements of a parent among which one stands; none of a part that is not a statement."""
    blocks = (getattr(above, name, None) for name in ("body", "orelse", "finalbody"))
    return next((block for block in blocks if isinstance(block, list) and statement in block), [])


def list_earlier(above: ast.AST, statement: ast.AST) -> list[ast.stmt]:
    """The statements of a parent before one of them, in the same block."""
    block = list_block(above, statement)
    return block[: block.index(statement)] if block else []  # type: ignore[arg-type]


@keep
def variable_reads(module: Module) -> list[tuple[str, ast.AST]]:
    """The environment variables that a file reads, each with the node that does."""
    nodes = (*module.kinds.get(ast.Subscript, ()), *module.kinds.get(ast.Call, ()))
    reads = [node for node in nodes if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    return [(name, node) for node in reads if (name := variable_read(node)) is not None]


@keep
def variable_writes(module: Module) -> list[tuple[str, ast.expr, ast.stmt]]:
    """``os.environ["X"] = value``: name, value, statement."""
    return [
        (name, node.value, node)
        for node in module.kinds.get(ast.Assign, ())
        for target in node.targets
        if isinstance(target, ast.Subscript) and (name := variable_read(target))
    ]


def is_conditional(module: Module, node: ast.AST) -> bool:
    """Whether a node runs only under a condition, such as outside Azure ML."""
    path: list[ast.AST] = []
    answers: dict[ast.AST, bool] = module.memo.setdefault(is_conditional, {})
    result = False
    for above, child in module.ancestors(node):
        result = answers.get(child, False)
        if child in answers:
            break
        path.append(child)
        if isinstance(above, ast.If | ast.Try | ast.ExceptHandler):
            result = getattr(above, "test", above) not in module.once(speaks_of_main)
        if result:
            break
    answers.update(dict.fromkeys(path, result))
    return result


def speaks_of_main(module: Module) -> set[ast.AST]:
    """The nodes that contain ``__main__`` in any way."""
    if "__main__" not in module.text:
        return set()
    return module.around(
        node
        for kind, nodes in module.kinds.items()
        for name in _TEXTS.intersection(kind._fields)
        for node in nodes
        if isinstance(value := getattr(node, name), str) and "__main__" in value
    )


_NAMED = (
    *((kind, "name") for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)),
    *((ast.MatchAs, "name"), (ast.MatchStar, "name"), (ast.MatchMapping, "rest"), (ast.arg, "arg")),
)


@keep
def list_bound_names(module: Module) -> set[str] | None:
    """Every name that the file binds in any way; None if a star import or ``exec`` may bind more."""
    if any(name.endswith("*") for name, _, _ in module.imports):
        return None
    if any(name in ("exec", "globals", "eval") for name, _ in module.calls):
        return None
    kinds = module.kinds
    names = {node.id for node in kinds.get(ast.Name, ()) if not isinstance(node.ctx, ast.Load)}
    names |= {name for kind, read in _NAMED for node in kinds.get(kind, ()) if (name := getattr(node, read))}
    names |= {
        name for kind in (ast.Global, ast.Nonlocal) for node in kinds.get(kind, ()) for name in node.names
    }
    return names | set(module.names) | set(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__"}

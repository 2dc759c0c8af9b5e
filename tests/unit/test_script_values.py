"""What an expression of a script stands for, followed through names, calls, classes and modules beside it."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from worldsize.base.source import Source
from worldsize.facts import library_calls
from worldsize.scripts.definitions import Definitions, find_class_named
from worldsize.scripts.guards import read_side
from worldsize.scripts.module import Module, name_variable, parse_module
from worldsize.scripts.ranks import is_read_from
from worldsize.scripts.values import evaluate, find_values, list_calls, open_variable

UNKNOWN = "?"
BASE = "class A:\n    def __init__(self, x): use(x)\n"


def define(text: str, **beside: str) -> tuple[Definitions, Module, ast.expr]:
    """The definitions of a script, and the argument of its only call of `use`."""
    texts = {"train.py": text} | {f"{name}.py": other for name, other in beside.items()}
    modules = [parse_module(Source(path, dedent(each))) for path, each in texts.items()]
    assert all(modules)
    code = Definitions(tuple(each for each in modules if each is not None))
    (call,) = code.modules[0].called("use")
    return code, code.modules[0], call.args[0]


def values(text: str, **beside: str) -> list[str]:
    code, module, node = define(text, **beside)
    places = find_values(code, module, node)
    return sorted(UNKNOWN if each is home.tree else ast.unparse(each) for home, each in places)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\nuse(x)", ["1"]),
        ("x = 1\nif a: x = 2\nuse(x)", ["1", "2"]),
        ("for x in a: use(x)", [UNKNOWN]),
        ("x = 1\nx += 1\nuse(x)", ["1", UNKNOWN]),
        ("a, x = 1, 2\nuse(x)", ["2"]),
        ("def f(): return 1, 2\na, x = f()\nuse(x)", ["2"]),
        ("def f(): return 3\nuse(f())", ["3"]),
        ("def f(x): use(x)\nf(1)\nf(x=2)", ["1", "2"]),
        ("def f(x=3): use(x)\nf()", ["3"]),
        ("def f(x): use(x)\nf(1)\nspawn(f)", []),  # something else calls it too
        ("def f(x): use(x)\nf(*a)", [UNKNOWN]),
        ("class A:\n    def f(self, x): use(x)\na = A()\na.f(4)", ["4"]),
        ("class A:\n    def __init__(self, x): self.x = x\n    def f(self): use(self.x)", ["x"]),
        ("class A:\n    x = 5\n    def f(self): use(self.x)", ["5"]),
        ("class A:\n    def g(self): self.x = 1\nclass B:\n    def f(self): use(self.x)", []),
        ("class A:\n    def g(self): self.x = 1\nclass B(A):\n    def f(self): use(self.x)", ["1"]),
        ("class A:\n    @property\n    def x(self): return 6\n    def f(self): use(self.x)", ["6"]),
        ("@dataclass\nclass A:\n    y: int\n    x: int = 7\na = A(1)\nuse(a.x)", ["7"]),
        ("@dataclass\nclass A:\n    y: int\n    x: int = 7\na = A(1, 8)\nuse(a.x)", ["8"]),
        ("args.x = 1\ngroup.x = 2\nuse(args.x)", ["1"]),
        ("d = {'a': 1, 'b': 2}\nuse(d['b'])", ["2"]),
        ("d = dict(a=1)\nuse(d['a'])", ["1"]),
        ("x = 1\ndef f():\n    def g(): use(x)\n    x = 2", ["2"]),  # of the function around
        ("class A:\n    x = 1\n    def f(self): use(x)", []),  # a method does not see its class's names
        ("def f():\n    global x\n    x = 1\ndef g(): use(x)", ["1"]),
        ("def f(d): use(d['a'])\ne = {'a': 1}\nf(e)", ["1"]),
        ("def f(**options): use(options['x'])\nf(x=1)\nf(y=2)", ["1", UNKNOWN]),
        (BASE + "class B(A):\n    def __init__(self, y): super().__init__(y)", ["y"]),
        (BASE + "class B(A):\n    def f(self): pass\nA(1)", []),  # `B(…)` calls it too
        ("class A(M):\n    def __init__(self, x): pass\n    def f(self): use(self.hparams.x)\nA(3)", ["3"]),
        ("with a() as x: use(x)", ["a()"]),
        ("use(x := 3)\nprint(x)", []),
        ("if (x := 3): use(x)", ["3"]),
        ("use(1 if a else 2)", ["1", "2"]),
        ("x = x\nuse(x)", ["x"]),
    ],
)
def test_what_an_expression_stands_for(text: str, expected: list[str]) -> None:
    assert values(text) == expected


def test_a_chosen_call_is_the_only_one() -> None:
    code, module, node = define("def f(x): use(x)\nf(1)\nf(2)")
    function, call = code.functions["f"][0][1], module.called("f")[1]
    chosen = Definitions((module,), chosen={function: (module, call)})
    assert [ast.unparse(value) for _, value in find_values(chosen, module, node)] == ["2"]
    assert len(list_calls(code, module, function)[0]) == 2


def test_modules_beside_the_script_are_followed() -> None:
    assert values("from settings import LR\nuse(LR)", settings="LR = 0.1") == ["0.1"]
    assert values("import settings\nuse(settings.LR)", settings="LR = 0.1") == ["0.1"]
    assert values("from tools import make\nuse(make())", tools="def make(): return 2") == ["2"]
    assert values("def f(x): use(x)", other="from train import f\nf(9)") == ["9"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = ['a']\nuse(A + ['b'])", ("a", "b")),
        ("def f(n): use(f'{n}.pt')\nf('m')", "m.pt"),
        ("x = 2\nif a: x = 2\nuse(x)", 2),
        ("x = 2\nif a: x = 3\nuse(x)", None),
        ("x = x\nuse(x)", None),
        ("def f(x): f(x); use(x)\nf(1)", None),
        ("use(range(3))", (0, 1, 2)),
        ("use(int)", int),
    ],
)
def test_values_are_evaluated(text: str, expected: object) -> None:
    assert evaluate(*define(text)) == expected


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("import os\nuse(int(os.environ['LOCAL_RANK']))", "local_rank"),
        ("import os\ndef f(): return int(os.getenv('RANK', 0))\nr = f()\nuse(r)", "global_rank"),
        ("import torch.distributed as dist\nr = dist.get_rank() if a else 0\nuse(r)", "global_rank"),
        ("import horovod.torch as hvd\nuse(hvd.local_rank())", "local_rank"),
    ],
)
def test_what_gives_a_rank_is_in_a_table(text: str, gives: str) -> None:
    code, module, node = define(text)
    kinds = {
        each for each in ("global_rank", "local_rank", "node_rank") if is_read_from(code, module, node, each)
    }
    assert kinds == {gives}


def test_a_guard_is_followed_to_the_argument_of_a_call() -> None:
    code, module, node = define("def f(first):\n    use(first)\nf(rank == 0)")
    assert read_side(code, module, node) == "first"


def test_a_row_that_names_a_function_wins_over_one_for_all_objects() -> None:
    assert library_calls.find_call("torch.save", "writes") == ("torch.save", "writes", 1)
    assert library_calls.find_call("model.save", "writes") == ("*.save", "writes", 0)
    assert library_calls.find_call("model.saved", "writes") is None
    assert library_calls.find_call("torch.save", "prints") is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("model", "model"),
        ("self.model", "self.model"),
        ('loaders["train"]', "loaders['train']"),
        ("make().model", ""),
        ("a + b", ""),
        ("3", ""),
    ],
)
def test_a_variable_has_a_name(written: str, name: str) -> None:
    assert name_variable(ast.parse(written, mode="eval").body) == name
    assert name_variable(None) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = make()\nuse(a)", "make()"),
        ("def f(a): use(a)\nb = make()\nf(b)", "make()"),
        ("use(make())", "make()"),
        ("a = 1\na = 2\nuse(a)", "a"),
        ("use(a)", "a"),
    ],
)
def test_a_variable_is_opened_to_its_only_value(text: str, expected: str) -> None:
    _, module, node = define(text)
    value = open_variable(module, node)
    assert value is not None
    assert ast.unparse(value) == expected


def test_a_text_with_a_part_replaced_is_known() -> None:
    code, module, node = define('use("--" + field.name.replace("_", "-"))')
    assert evaluate(code, module, node, {"field.name": "batch_size"}) == "--batch-size"


def test_a_class_is_the_one_of_the_module_that_it_is_imported_from() -> None:
    text, meter = "from utils import Meter\nuse(Meter)", "class Meter: pass"
    code, module, node = define(text, utils=meter, others=meter)
    place = find_class_named(code, module, node)
    assert place is not None
    assert place[0].source.path == "utils.py"
    code, module, node = define("from package import Meter\nuse(Meter)", utils=meter, others=meter)
    assert find_class_named(code, module, node) is None

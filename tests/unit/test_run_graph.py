"""Graphs inside graphs: folding steps into pipeline components changes their names and nothing else."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml import job as jobs
from worldsize.azureml.files import Files
from worldsize.base.span import Span
from worldsize.running.launch.call import make_call, resolve_inputs
from worldsize.running.model.assets import AssetEntry, AssetMap
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.task import File, Graph, Joined, Output, Task, Text
from worldsize.running.prepare.graph.flatten import flatten

RUN = RunFolder(Path("run"))
LEAF = {
    "type": "command",
    "command": "echo ${{inputs.n}} $[[ -d ${{inputs.d}} ]] $[[ -e ${{inputs.e}} ]] > ${{outputs.o}}/x",
    "inputs": {
        "n": {"type": "integer"},
        "d": {"type": "uri_folder", "optional": True},
        "e": {"type": "uri_folder", "optional": True},
    },
    "outputs": {"o": {"type": "uri_folder"}},
    "environment": "azureml:any:1",
}


@dataclass(frozen=True)
class Leaf:
    """One step: a number or an input of the pipeline, and up to two earlier steps whose output it reads."""

    number: int
    reads: tuple[int, ...]  # ids of earlier leaves; a negative number is an input of the pipeline
    id: int


Item = Any  # a Leaf, or a list of items: a pipeline component


@st.composite
def pipelines(draw: st.DrawFn) -> list[Item]:
    count = draw(st.integers(1, 9))
    leaves = [
        Leaf(
            draw(st.sampled_from([-2, -1, 1, 2, 3])),
            tuple(draw(st.lists(st.integers(0, index - 1), max_size=2)) if index else ()),
            index,
        )
        for index in range(count)
    ]
    items: list[Item] = list(leaves)
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, len(items) - 1))
        last = draw(st.integers(first + 1, len(items)))
        items[first:last] = [items[first:last]]
    return items


def members(item: Item) -> Iterator[Leaf]:
    if isinstance(item, Leaf):
        yield item
    else:
        for inner in item:
            yield from members(inner)


def expression_of(made: dict[int, str], given: dict[Any, str], key: Any) -> str:
    """What carries a leaf's output, or an input of the pipeline, in a graph."""
    return made[key] if key in made else f"${{{{parent.inputs.{given[key]}}}}}"


class Writer:
    """Writes a pipeline, each group as a component file whose ports are the edges that cross it."""

    def __init__(self, folder: Path, everything: list[Item]) -> None:
        self.folder, self.count = folder, 0
        self.all = [leaf for item in everything for leaf in members(item)]
        self.names: dict[int, str] = {}  # of leaves, after unfolding
        (folder / "leaf.yml").write_text(yaml.safe_dump(LEAF))

    def graph(self, items: list[Item], prefix: str, given: dict[Any, str]) -> dict[str, Any]:
        """The jobs of a graph; ``given`` says how its inputs are called, by what they carry."""
        made: dict[int, str] = {}  # the expression of a leaf's output in this graph
        jobs_: dict[str, Any] = {}
        for number, item in enumerate(items):
            name = f"s{number}"
            source = partial(expression_of, made, given)
            if isinstance(item, Leaf):
                jobs_[name] = self.leaf(item, source)
                self.names[item.id] = prefix + name
                made[item.id] = f"${{{{parent.jobs.{name}.outputs.o}}}}"
            else:
                jobs_[name] = self.component(item, f"{prefix}{name}.", source)
                for leaf in members(item):
                    made[leaf.id] = f"${{{{parent.jobs.{name}.outputs.o{leaf.id}}}}}"
        return jobs_

    def leaf(self, leaf: Leaf, source: Callable[[Any], str]) -> dict[str, Any]:
        number: Any = leaf.number if leaf.number > 0 else source(f"n{-leaf.number}")
        reads = {port: source(read) for port, read in zip("de", leaf.reads, strict=False)}
        return {"type": "command", "component": "./leaf.yml", "inputs": {"n": number, **reads}}

    def component(self, items: list[Item], prefix: str, source: Callable[[Any], str]) -> dict[str, Any]:
        self.count += 1
        file = f"group{self.count}.yml"
        own = {leaf.id for item in items for leaf in members(item)}
        leaves = [leaf for leaf in self.all if leaf.id in own]
        crossing: list[Any] = sorted({read for leaf in leaves for read in leaf.reads} - own)
        crossing += sorted({f"n{-leaf.number}" for leaf in leaves if leaf.number < 0})
        ports = {key: f"p{index}" for index, key in enumerate(crossing)}
        inner = self.graph(items, prefix, ports)
        for leaf in leaves:  # every output of a leaf is one of the component
            outside = f"${{{{parent.outputs.o{leaf.id}}}}}"
            step, _, rest = self.names[leaf.id].removeprefix(prefix).partition(".")
            inner[step].setdefault("outputs", {})[f"o{leaf.id}" if rest else "o"] = outside
        types = {key: "integer" if isinstance(key, str) else "uri_folder" for key in crossing}
        document = {
            "type": "pipeline",
            "inputs": {port: {"type": types[key]} for key, port in ports.items()},
            "outputs": {f"o{leaf.id}": {"type": "uri_folder"} for leaf in leaves},
            "jobs": inner,
        }
        (self.folder / file).write_text(yaml.safe_dump(document))
        given = {port: source(key) for key, port in ports.items()}
        return {"type": "pipeline", "component": f"./{file}", "inputs": given}


def written(folder: Path, items: list[Item]) -> tuple[Graph, dict[int, str]]:
    writer = Writer(folder, items)
    given: dict[Any, str] = {"n1": "one", "n2": "two"}
    document = {
        "type": "pipeline",
        "inputs": {"one": 11, "two": 22},
        "jobs": writer.graph(items, "", given),
    }
    path = folder / "pipeline.yml"
    path.write_text(yaml.safe_dump(document))
    return unfolded(path), writer.names


def unfolded(path: Path, known: AssetMap | None = None) -> Graph:
    known = known or AssetMap()
    job, problems = jobs.read_job(path, Files(elsewhere=known.local))
    assert job is not None
    assert not problems
    graph, problems = flatten(job, known)
    assert [problem.message for problem in problems] == []
    return graph


def command(task: Task) -> str:
    values = resolve_inputs(task, RUN)
    return make_call(task, RUN, values, experiment="e", tracking={}, cores=1).command


@given(pipelines())
def test_folding_steps_into_components_changes_nothing_but_their_names(items: list[Item]) -> None:
    flat: list[Item] = [leaf for item in items for leaf in members(item)]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        plain, plain_names = written(Path(one), flat)
        nested, names = written(Path(two), items)
    assert list(nested.tasks) == [names[leaf.id] for leaf in flat]
    for leaf in flat:
        expected = command(plain.tasks[plain_names[leaf.id]])
        for other in (leaf.id, *leaf.reads):
            expected = expected.replace(f"/{plain_names[other]}/", f"/<{other}>/")
        for other in (leaf.id, *leaf.reads):
            expected = expected.replace(f"/<{other}>/", f"/{names[other]}/")
        assert command(nested.tasks[names[leaf.id]]) == expected
        assert nested.tasks[names[leaf.id]].needs == {names[read] for read in leaf.reads}


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writing(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.yml").write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / "pipeline.yml"

    return writing


INNER = """
    type: pipeline
    inputs:
      data: {type: uri_folder, optional: true}
      rate: {type: number, default: 0.5}
      tag: {type: string, optional: true}
    outputs: {model: {type: uri_folder}}
    jobs:
      first:
        command: make --rate ${{inputs.rate}} --out ${{outputs.made}}
        environment_variables: {RATE: "${{parent.inputs.rate}}"}
        inputs: {rate: "${{parent.inputs.rate}}"}
        outputs: {made: "${{parent.outputs.model}}"}
      second:
        type: command
        component: ./optional.yml
        inputs: {data: "${{parent.inputs.data}}", tag: "${{parent.inputs.tag}}"}
"""
OPTIONAL = """
    type: command
    command: use $[[--data ${{inputs.data}}]] $[[--tag ${{inputs.tag}}]] --end
    inputs:
      data: {type: uri_folder, optional: true}
      tag: {type: string, optional: true, default: none}
    environment: azureml:any:1
"""
OUTER = """
    type: pipeline
    outputs: {best: {type: uri_folder}}
    jobs:
      a: {type: pipeline, component: ./inner.yml}
      b:
        type: pipeline
        component: ./inner.yml
        inputs: {rate: 0.25, data: "${{parent.jobs.a.outputs.model}}", tag: x}
        outputs: {model: "${{parent.outputs.best}}"}
      c:
        command: compare ${{inputs.one}} ${{inputs.two}} ${{inputs.rate}}
        inputs:
          one: ${{parent.jobs.a.outputs.model}}
          two: {path: "${{parent.jobs.b.outputs.model}}", mode: download}
          rate: ${{parent.jobs.b.inputs.rate}}
"""


def test_defaults_and_open_inputs_of_a_component_reach_its_steps(write: Write) -> None:
    graph = unfolded(write(pipeline=OUTER, inner=INNER, optional=OPTIONAL))
    assert list(graph.tasks) == ["a.first", "a.second", "b.first", "b.second", "c"]
    assert graph.outputs == {"best": Output("b.first", "made")}
    said = {name: command(task) for name, task in graph.tasks.items()}
    assert said["a.first"] == "make --rate 0.5 --out run/steps/a.first/outputs/made"
    assert said["a.second"] == "use  --tag none --end"
    assert said["b.second"] == "use --data run/steps/a.first/outputs/made --tag x --end"
    assert said["c"].split() == [
        "compare", "run/steps/a.first/outputs/made", "run/steps/b.first/outputs/made", "0.25",
    ]  # fmt: skip
    assert graph.tasks["b.first"].environment_variables == {"RATE": "0.25"}
    assert graph.tasks["c"].needs == {"a.first", "b.first"}


def test_an_optional_input_does_without_a_step_that_failed(write: Write) -> None:
    task = unfolded(write(pipeline=OUTER, inner=INNER, optional=OPTIONAL)).tasks["b.second"]
    assert task.needs == {"a.first"} and not task.requires("a.first")  # noqa: PT018
    assert command(task.without({"a.first"})) == "use  --tag x --end"
    assert command(task.without({"other"})) == command(task)


GROUPS = """
    type: pipeline
    inputs:
      options: {rate: 0.5, layers: 3}
      data: {type: uri_folder, path: .}
      folder: "."
    jobs:
      whole: {type: command, component: ./grouped.yml, inputs: {options: "${{parent.inputs.options}}"}}
      members:
        type: command
        component: ./grouped.yml
        inputs: {options: {rate: 1, layers: "${{parent.inputs.options.layers}}"}}
      dotted: {type: command, component: ./grouped.yml, inputs: {options.rate: 2}}
      made: {command: "touch ${{outputs.o}}/best", outputs: {o: }}
      around:
        type: command
        component: ./optional.yml
        inputs: {data: "${{parent.jobs.made.outputs.o}}/best", tag: "r-${{parent.inputs.options.rate}}"}
      below: {type: command, component: ./optional.yml, inputs: {data: "${{parent.inputs.data}}/inner.yml"}}
"""
GROUPED = """
    type: command
    command: run ${{inputs.options.rate}} ${{inputs.options.layers}}
    inputs: {options.rate: {type: number}, options.layers: {type: integer, default: 1}}
    environment: azureml:any:1
"""


def test_groups_and_texts_around_bindings(write: Write, tmp_path: Path) -> None:
    graph = unfolded(write(pipeline=GROUPS, grouped=GROUPED, optional=OPTIONAL, inner=INNER))
    said = {name: command(task) for name, task in graph.tasks.items()}
    assert [said[name] for name in ("whole", "members", "dotted")] == ["run 0.5 3", "run 1 3", "run 2 1"]
    assert graph.tasks["around"].inputs == {
        "data": Joined((Output("made", "o"), Text("/best"))),
        "tag": Text("r-0.5"),
    }
    assert said["around"] == "use --data run/steps/made/outputs/o/best --tag r-0.5 --end"
    assert graph.tasks["around"].needs == {"made"}
    assert graph.tasks["below"].inputs["data"] == File(tmp_path / "inner.yml")
    assert len(graph.notices) == 2
    assert all("text around a binding" in notice for notice in graph.notices)


def test_components_and_data_behind_the_map(write: Write, tmp_path: Path) -> None:
    path = write(
        pipeline="""
            type: pipeline
            jobs:
              s:
                type: pipeline
                component: azureml://registries/r/components/inner/versions/3
                inputs: {data: "azureml:cifar@latest", tag: "azureml:text"}
        """,
        inner=INNER,
        optional=OPTIONAL,
    )
    at = Span("worldsize.yml", 1, 1, 1, 1)
    registered = "azureml://registries/r/components/inner/versions/3"
    known = AssetMap(
        [AssetEntry(registered, tmp_path / "inner.yml", at), AssetEntry("azureml:cifar@latest", tmp_path, at)]
    )
    graph = unfolded(path, known)
    assert list(graph.tasks) == ["s.first", "s.second"]
    assert command(graph.tasks["s.second"]) == f"use --data {tmp_path} --tag azureml:text --end"


def refusals(path: Path) -> list[str]:
    job, problems = jobs.read_job(path)
    assert job is not None
    problems = problems or flatten(job, AssetMap())[1]
    return [f"{Path(each.span.path).name}:{each.span.line}: {each.message}" for each in problems]


PIPELINE = "type: pipeline\njobs:\n"
WRONG = {
    "required": (
        PIPELINE + "  s: {type: pipeline, component: ./needy.yml}\n",
        ["pipeline.yml:3: input `x` of step `s` has no value"],
    ),
    "deep inside": (
        PIPELINE + "".join(f"  {name}: {{type: pipeline, component: ./broken.yml}}\n" for name in "st"),
        ["broken.yml:4: input `d` of step `s.k` is `./nowhere`, which does not exist"],
    ),
    "output of nobody": (
        PIPELINE + "  s: {type: pipeline, component: ./unwritten.yml}\n",
        ["pipeline.yml:3: no step writes the output `o` of the component of step `s`"],
    ),
    "wrong kind": (
        PIPELINE + "  s: {type: command, component: ./broken.yml}\n",
        ["pipeline.yml:3: step `s` is of type `command`, but its component is of type `pipeline`"],
    ),
    "a sweep over a pipeline": (
        PIPELINE + "  s: {type: sweep, trial: ./broken.yml}\n",
        ["pipeline.yml:3: step `s` is of type `sweep`, but its component is of type `pipeline`"],
    ),
    "a circle through components": (
        PIPELINE
        + "  s: {type: pipeline, component: ./through.yml, inputs: {d: '${{parent.jobs.t.outputs.o}}'}}\n"
        + "  t: {command: a, inputs: {i: '${{parent.jobs.s.outputs.o}}'}, outputs: {o: }}\n",
        ["through.yml:5: steps `s.k`, `t` wait for each other"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_inside_is_said_once_at_its_place(name: str, write: Write) -> None:
    text, messages = WRONG[name]
    path = write(
        pipeline=text,
        needy="type: pipeline\ninputs: {x: {type: integer}}\njobs:\n"
        "  k: {command: 'a ${{inputs.x}}', inputs: {x: '${{parent.inputs.x}}'}}\n",
        broken="type: pipeline\njobs:\n\n"
        "  k: {command: a, inputs: {d: {type: uri_folder, path: ./nowhere}}}\n",
        unwritten="type: pipeline\noutputs: {o: {type: uri_folder}}\njobs:\n  k: {command: a}\n",
        through="type: pipeline\ninputs: {d: {type: uri_folder}}\noutputs: {o: {type: uri_folder}}\njobs:\n"
        "  k: {command: a, inputs: {d: '${{parent.inputs.d}}'}, outputs: {o: '${{parent.outputs.o}}'}}\n",
    )
    assert refusals(path) == messages


def test_components_that_multiply_are_counted_before_they_are_unfolded(write: Write) -> None:
    levels = {
        f"l{level}": PIPELINE
        + "".join(f"  s{n}: {{type: pipeline, component: ./l{level + 1}.yml}}\n" for n in range(10))
        for level in range(12)
    }
    path = write(pipeline=levels.pop("l0"), **levels, l12=PIPELINE + "  s: {command: a}\n")
    assert refusals(path) == [
        "pipeline.yml:1: the pipeline has more than 20000 steps once its components are expanded"
    ]


def test_long_chains(write: Write) -> None:
    step = "  s{}: {{command: 'a ${{{{inputs.x}}}}', inputs: {{x: '${{{{parent.jobs.s{}.inputs.x}}}}'}}}}\n"
    steps = "".join(step.format(n, n - 1) for n in range(1, 3000))
    graph = unfolded(write(pipeline=PIPELINE + "  s0: {command: a, inputs: {x: 7}}\n" + steps))
    assert graph.tasks["s2999"].inputs == {"x": Text(7)}

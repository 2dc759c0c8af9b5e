from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import worldsize
from worldsize.cli.main import main
from worldsize.documents.errors import PipelineError
from worldsize.dsl import load
from worldsize.dsl.load import suggest_functions, suggest_planning


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("pipelines/digits.py:digits", True),
        ("digits.py:a.b", True),
        ("digits.py::digits", True),
        ("digits.py#digits", True),
        ("digits.py", False),
        ("spec.yml", False),
        ("azureml:digits:1", False),
        (Path("digits.py:digits"), False),
    ],
)
def test_a_reference_names_a_function_in_a_python_file(target: object, expected: bool) -> None:
    assert load.is_reference(target) is expected


FAULTS = {
    "def pipeline(:\n": ("importing `{file}` raised SyntaxError: invalid syntax", "look at pipe.py, line 1"),
    "import nowhere_at_all\n": (
        "importing `{file}` needs `nowhere_at_all`, which is not installed",
        "install `nowhere_at_all`",
    ),
    "import azure.no_such\n": (
        "importing `{file}` needs `azure.no_such`, which is not installed",
        "pip install 'worldsize[azure]'",
    ),
    "x = 1\n1 / 0\n": (
        "importing `{file}` raised ZeroDivisionError: division by zero",
        "look at pipe.py, line 2",
    ),
    "def pipeline():\n    raise TypeError(\"[component] a() got an unexpected keyword argument 'modle',"
    " valid keywords: 'shards', 'model'.\")\n": (
        "`{file}:pipeline` gives a component the input `modle`, which it does not have",
        "did you mean `model`? (look at pipe.py, line 2)",
    ),
    "def pipelin():\n    pass\n": ("`{file}` has no function `pipeline`", "did you mean `{file}:pipelin`?"),
    "def other():\n    pass\n": ("`{file}` has no function `pipeline`", "it has `other`"),
    "from os.path import join\nx = 1\n": ("`{file}` has no function `pipeline`", "it has none: write one"),
    "from worldsize import PipelineError\ndef pipeline():\n    raise PipelineError('no', 'do')\n": (
        "no",
        "do (look at pipe.py, line 3)",
    ),
    "pipeline = 3\n": (
        "`{file}:pipeline` is a `int`, not a pipeline job",
        "name a function with `@dsl.pipeline`, or one that returns the job of such a function",
    ),
    "def pipeline():\n    return None\n": (
        "`{file}:pipeline` is a `NoneType`, not a pipeline job",
        "name a function with `@dsl.pipeline`, or one that returns the job of such a function",
    ),
    "def pipeline(data, rate=1):\n    pass\n": (
        "`{file}:pipeline` needs a value for `data`",
        "give its parameters defaults, or name a function that calls it with values",
    ),
    "def pipeline():\n    x = 1\n    return x.nothing\n": (
        "`{file}:pipeline` raised AttributeError: 'int' object has no attribute 'nothing'",
        "look at pipe.py, line 3",
    ),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_one_sentence_with_its_line(tmp_path: Path, code: str) -> None:
    file = tmp_path / "pipe.py"
    file.write_text(code)
    message, advice = FAULTS[code]
    with pytest.raises(PipelineError) as caught:
        load.load_job(f"{file}:pipeline")
    assert (str(caught.value), caught.value.help) == (message.format(file=file), advice.format(file=file))


@pytest.mark.parametrize("separator", ["::", "#", "@"])
def test_another_separator_is_named(tmp_path: Path, separator: str) -> None:
    file = tmp_path / "pipe.py"
    file.write_text("")
    with pytest.raises(PipelineError) as caught:
        load.load_job(f"{file}{separator}pipeline")
    assert f"has `{separator}` between file and function" in str(caught.value)
    assert caught.value.help == f"write `{file}:pipeline`"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pipe:digits", "pipe.py:digits"),
        ("pipe.digits", "pipe.py:digits"),
        ("sub.pipe:digits", "sub/pipe.py:digits"),
        ("other:digits", None),
        ("pipe.py", None),
        ("azureml:pipe:1", None),
    ],
)
def test_what_a_path_may_stand_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("pipe.py", "sub/pipe.py"):
        (tmp_path / name).write_text("")
    assert load.name_reference(path) == expected


def no_job() -> None: ...


VERBS = {
    "check": worldsize.check,
    "plan": worldsize.plan,
    "run": worldsize.run,
    "compile": lambda target: worldsize.compile(target, "out"),
    "estimate": worldsize.estimate,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "target", [no_job, 3, None, "pipe.py", Path("pipe.py")], ids=lambda each: type(each).__name__
)
def test_what_is_no_job_is_refused_in_one_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, target: object
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipe.py").write_text("def digits(): ...\n")
    with pytest.raises(PipelineError) as caught:
        VERBS[verb](target)
    assert caught.value.help
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe.py"]


COMMANDS = {
    "check pipe.py": "`pipe.py` is a Python file, which may define several pipelines",
    "run pipe.py": "`pipe.py` is a Python file, which may define several pipelines",
    "plan pipe.py": "`pipe.py` is a Python file, which may define several pipelines",
    "submit pipe.py": "`pipe.py` is a Python file, which may define several pipelines",
    "check pipe:digits": "there is no file `pipe:digits`",
    "run pipe.digits": "there is no file `pipe.digits`",
    "plan pipe:digits": "there is no file `pipe:digits`",
    "submit pipe:digits": "there is no file `pipe:digits`",
    "check pipe.py::digits": "`pipe.py::digits` has `::` between file and function",
    "plan pipe.py:nothing": "`pipe.py` has no function `nothing`",
    "compile pipe.py:digits -o out": "`pipe.py:digits` is a `NoneType`, not a pipeline job",
    "estimate pipe.py:digits": "`worldsize estimate` takes the path of the file of a workload, not `pipe",
    "advise pipe.py:digits": "`worldsize advise` takes the path of a spec or the file of a workload, not",
    "adopt pipe.py:digits": "`worldsize adopt` takes the path of a training script, not `pipe.py:digits`",
    "init pipe.py:digits": "`worldsize init` takes the path of a folder, not `pipe.py:digits`",
    "init --from pipe.py:digits": "`worldsize init` takes the path of data, a script or YAML, not `pipe",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipe.py").write_text("def digits(): ...\n")
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 1, result.output
    assert result.output.startswith(f"error: {COMMANDS[command]}")
    assert "\n  = help: " in result.output
    assert {each.name for each in tmp_path.iterdir()} <= {"pipe.py", "__pycache__"}


def test_a_missing_file_is_named() -> None:
    with pytest.raises(PipelineError, match=r"there is no file `nowhere\.py`"):
        load.load_job("nowhere.py:pipeline")


def test_modules_beside_the_file_can_be_imported_and_a_job_may_be_a_variable(tmp_path: Path) -> None:
    (tmp_path / "names_beside.py").write_text("STEPS = ('a',)\n")
    (tmp_path / "pipe.py").write_text(
        "from names_beside import STEPS\n"
        "class Job:\n    jobs = STEPS\n    def dump(self): ...\n"
        "job = Job()\n"
        "def make():\n    return job\n"
    )
    assert load.load_job(f"{tmp_path / 'pipe.py'}:job").jobs == ("a",)
    assert load.load_job(f"{tmp_path / 'pipe.py'}:make").jobs == ("a",)


def test_a_file_alone_is_answered_with_its_pipelines(tmp_path: Path) -> None:
    file = tmp_path / "pipe.py"
    file.write_text(
        "from azure.ai.ml import dsl\n\n@dsl.pipeline(\n    compute='cpu',\n)\ndef digits():\n    pass\n\n"
        "@pipeline()\ndef letters(epochs=3):\n    pass\n\ndef helper():\n    pass\n"
    )
    with pytest.raises(PipelineError) as refused:
        worldsize.check(file)
    assert refused.value.help == f"write `{file}:digits` or `{file}:letters`"
    file.write_text("import torch\n")
    with pytest.raises(PipelineError) as refused:
        worldsize.check(file)
    assert "a training script needs a job, which `worldsize adopt" in str(refused.value.help)


def test_functions_that_plan_are_suggested_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planning = "\n\ndef planned():\n    job = digits()\n    worldsize.plan(job)\n    return job\n"
    needing = "\n\ndef sized(size):\n    worldsize.plan(digits(), instance_types=size)\n"
    Path("pipe.py").write_text(f"@dsl.pipeline\ndef digits():\n    pass\n{needing}{planning}")
    assert suggest_functions("pipe.py") == "write `pipe.py:planned` or `pipe.py:digits`"
    assert suggest_planning("pipe.py:digits") == "`planned` plans one: write `pipe.py:planned`"
    Path("pipe.py").write_text("@dsl.pipeline\ndef digits():\n    pass\n")
    assert suggest_functions("pipe.py") == "write `pipe.py:digits`"
    assert suggest_planning("pipe.py:digits").startswith("call `worldsize.plan(job")

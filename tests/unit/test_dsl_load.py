from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.dsl import load
from worldsize.errors import PipelineError


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("pipelines/digits.py:digits", True),
        ("digits.py:a.b", True),
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
    "def pipelin():\n    pass\n": ("`{file}` has no function `pipeline`", "did you mean `pipelin`?"),
    "def other():\n    pass\n": ("`{file}` has no function `pipeline`", "there are other"),
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
    assert (str(caught.value), caught.value.help) == (message.format(file=file), advice)


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

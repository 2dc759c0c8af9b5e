"""Reads the steps whose kind has settings of its own, sweeps and parallel steps; names kinds that do not run.

Values are not coerced: what Azure ML refuses, or reads differently, is a problem with its position.

A parallel step becomes a command step that runs our driver, the package ``worldsize_parallel``. It is added
to the step's working folder like an include, so that it runs wherever the step does, in the step's own
interpreter; so are the packages that read an MLTable. The command passes its settings as ``name=value`` lines
on standard input, so that placeholders are filled in as in any command, and no shell interprets the values.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

import wsshards
import wssources
from worldsize.azureml import binding, fields, literals
from worldsize.azureml.model import Component, Field, OutputSetting, Step
from worldsize.azureml.references import local_path
from worldsize.azureml.sweep import ALGORITHMS, BAYESIAN, POLICIES, SETTINGS
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.documents.yaml.nodes import Mapping as YamlMapping
from worldsize.documents.yaml.nodes import Node
from worldsize.running.model.task import Algorithm, EarlyTermination, Goal, Parameter, SweepPlan, Value

SUBMIT = "submit the pipeline to Azure ML, or do the same in a `command` step"
UNSUPPORTED_KINDS = {
    "spark": ("a Spark job, and no Spark cluster is started here", SUBMIT),
    "automl": ("an AutoML job, whose models are chosen and trained by the service itself", SUBMIT),
    "import": (
        "an import of data from a database or a bucket, which only the service reaches",
        "put the data into a folder and give its path to the steps that read it",
    ),
    "data_transfer": (
        "a transfer of data between stores of the workspace, which only the service reaches",
        "put the data into a folder and give its path to the steps that read it",
    ),
    "do_while": ("a loop that the service itself decides on", "repeat its steps as often as they run"),
    "if_else": ("a condition that the service itself decides on", "keep only the branch that should run"),
    "parallel_for": ("a loop that the service itself unrolls", "repeat its steps as often as they run"),
    "finetuning": ("a fine-tuning job, which runs on models of the service", SUBMIT),
}

Default = TypeVar("Default", bound="int | None")


class Refusals(Struct):
    """All reasons why a pipeline cannot run here, in the order of discovery."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _reported: set[tuple[Span, str]] = field(default_factory=set)

    def refuse(self, span: Span, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field if one is given."""
        self.add(Problem("run-refused", (at and at.span) or span, message, help_))

    def add(self, *problems: Problem) -> None:
        """Report problems, once for a component that is used repeatedly."""
        for problem in problems:
            key = (problem.span, problem.help or problem.message)
            if key not in self._reported:
                self._reported.add(key)
                self.problems.append(problem)


def describe_unsupported(name: str, kind: str) -> tuple[str, str]:
    """The message and help for a step of a kind that is not run here."""
    if kind in UNSUPPORTED_KINDS:
        what, help_ = UNSUPPORTED_KINDS[kind]
        return f"step `{name}` is {what}", help_
    return f"step `{name}` is of type `{kind}`, which is not run here", SUBMIT


def notice_unwritten_outputs(
    outputs: Mapping[str, Field[OutputSetting]], folder: Path, there: str
) -> Iterator[str]:
    """Say where outputs are that a job wants at local paths; ``there`` is their folder in that of the run."""
    for name, setting in outputs.items():
        path = setting.value.path.value if setting.value.path else None
        if isinstance(path, str) and local_path(path, folder) is not None:
            instead = f"the run's folder has it as `{there}/{name}`"
            yield f"output `{name}` is not written to `{shorten(path)}`: {instead}"


class SettingsReader(Struct):
    """Reads the settings of a step, and collects the problems.

    ``resolve`` replaces a setting that is bound to an input of the pipeline by its value.
    """

    step: Step  # the step
    resolve: Callable[[Any], Any]
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, message: str, help_: str, at: Field[Any] | None = None) -> None:
        """Report a reason not to run, at a field if one is given."""
        span = (at.span if at else None) or self.step.span or Span("pipeline", 1, 1, 1, 1)
        self.problems.append(Problem("run-refused", span, message, help_))

    def read_setting(self, name: str) -> Field[Any] | None:
        """A setting of the step by its name."""
        return fields.read_field(self.step.raw, name) if isinstance(self.step.raw, YamlMapping) else None

    def whole(self, setting: Field[Any] | None, name: str, default: Default, least: int = 1) -> int | Default:
        """A whole number from ``least``; the default if it is absent or wrong."""
        if setting is None or setting.value is None:
            return default
        number = literals.parse_number(self.resolve(setting.value))
        if number is None or number < least or number != int(number):
            self.refuse(f"`{name}` is `{setting.value}`", f"give a whole number from {least}", setting)
            return default
        return int(number)


LIBRARIES = {"bayesian": "optuna", "sobol": "scipy"}  # random and grid need none


def read_sweep(
    step: Step, resolve: Callable[[Any], Any] = lambda value: value
) -> tuple[SweepPlan | None, list[Problem]]:
    """Read a sweep step as a plan, and its problems.

    ``resolve`` replaces a setting that is bound to an input of the pipeline by its value.
    """
    reader = _SweepReader(step, resolve)
    plan = reader.read()
    return (None if reader.problems else plan), reader.problems


class _SweepReader(SettingsReader):
    def read(self) -> SweepPlan:
        algorithm, block = self._read_algorithm()
        parameters = self._read_parameters(self._read_log_base(block))
        self._check_distributions(algorithm, parameters)
        self._check_library(algorithm)
        objective = self.read_setting("objective")
        limits = self.read_setting("limits")
        total = self._read_whole(limits, "max_total_trials", None)
        at_once = self._read_whole(limits, "max_concurrent_trials", total)
        return SweepPlan(
            parameters=tuple(parameters),
            algorithm=algorithm,
            goal=cast("Goal", self._choose_word(objective, "objective", "goal", ("minimize", "maximize"))),
            primary_metric=self._read_metric(objective),
            max_total_trials=total or 1,
            max_concurrent_trials=min(at_once or 1, total or 1),
            seed=self._read_whole(block, "seed", 0, least=0) or 0,
            timeout=self._read_whole(limits, "timeout", None, needed=False),
            trial_timeout=self._read_whole(limits, "trial_timeout", None, needed=False),
            policy=self._read_policy(),
        )

    def _read_algorithm(self) -> tuple[Algorithm, Field[Any] | None]:
        setting = self.read_setting("sampling_algorithm")
        if setting is None:
            return "random", None
        block = setting if isinstance(setting.value, dict) else None
        named = fields.read_member(setting, "type") if block else setting
        word = str(named.value).lower() if named and isinstance(named.value, str) else None
        if word not in ALGORITHMS:
            what = f"`{named.value}`" if named else "missing its `type`"
            self.refuse(f"`sampling_algorithm` is {what}", "write random, grid or bayesian", named or setting)
            return "random", block
        rule = fields.read_member(block, "rule")
        if word == "random" and rule is not None and rule.value is not None:
            chosen = str(rule.value).lower()
            if chosen not in ("random", "sobol"):
                self.refuse(f"`rule` of the sampling is `{rule.value}`", "write random or sobol", rule)
            return ("sobol" if chosen == "sobol" else "random"), block
        return cast("Algorithm", word), block

    def _read_log_base(self, block: Field[Any] | None) -> float:
        """The base of the logarithmic kinds, as ``logbase`` of random sampling gives it."""
        setting = fields.read_member(block, "logbase")
        if setting is None or setting.value is None or setting.value == "e":
            return math.e
        base = literals.parse_number(setting.value)
        if base is None or base <= 0 or base == 1:
            help_ = "give a positive number other than 1, or the letter e"
            self.refuse(f"`logbase` is `{setting.value}`", help_, setting)
            return math.e
        return float(base)

    def _read_parameters(self, base: float) -> list[Parameter]:
        space = self.read_setting("search_space")
        if space is None or not isinstance(space.node, YamlMapping) or not space.value:
            help_ = "give one, such as `search_space: {lr: {type: loguniform, min_value: -9, max_value: -2}}`"
            self.refuse(f"sweep `{self.step.name}` has no `search_space`", help_, space)
            return []
        parameters = (self._read_parameter(key.text, node, base) for key, node in space.node.items())
        return [parameter for parameter in parameters if parameter is not None]

    def _read_parameter(self, name: str, node: Node, base: float) -> Parameter | None:
        block = fields.read_node(node)
        kind = fields.read_member(block, "type")
        word = str(kind.value).lower() if kind is not None else ""
        if word not in SETTINGS:
            what = f"is of type `{kind.value}`" if kind else "has no `type`"
            message = f"`{name}` of `search_space` {what}"
            self.refuse(message, f"types are {', '.join(SETTINGS)}", kind or block)
            return None
        if word == "choice":
            values = self._read_choices(name, block)
            return Parameter(name, word, values=values) if values else None
        numbers = {setting: self._read_number(name, block, setting) for setting in SETTINGS[word]}
        if any(number is None for number in numbers.values()):
            return None
        return self._read_numeric(name, word, cast("dict[str, float]", numbers), base, block)

    def _read_numeric(
        self, name: str, kind: str, numbers: dict[str, float], base: float, block: Field[Any]
    ) -> Parameter | None:
        low = numbers.get("min_value", numbers.get("mu", 0.0))
        high = numbers.get("max_value", numbers.get("sigma", numbers.get("upper", 0.0)))
        wrong = None
        if "min_value" in numbers and low > high:
            wrong = f"has `min_value` {low} above `max_value` {high}", "exchange the two"
        elif numbers.get("sigma", 0.0) < 0:
            wrong = f"has the negative `sigma` {high}", "give a standard deviation of 0 or more"
        elif kind == "randint" and (high < 1 or high != int(high)):
            wrong = f"has `upper` {high}", "give a whole number from 1: values lie in [0, upper)"
        elif numbers.get("q", 1.0) <= 0:
            wrong = f"has `q` {numbers['q']}", "give a step above 0"
        if wrong is not None:
            self.refuse(f"`{name}` of `search_space` {wrong[0]}", wrong[1], block)
            return None
        whole = all(isinstance(number, int) for number in numbers.values())
        return Parameter(name, kind, (), low, high, numbers.get("q"), base, whole)

    def _read_number(self, name: str, block: Field[Any], setting: str) -> float | None:
        value = fields.read_member(block, setting)
        number = literals.parse_number(self.resolve(value.value)) if value is not None else None
        if number is None:
            message = f"`{setting}` of `{name}` in `search_space` is "
            message += f"`{value.value}`, which is not a number" if value is not None else "missing"
            self.refuse(
                message, "give a number; 1e-3 is text in YAML 1.1, 1.0e-3 is a number", value or block
            )
        return number

    def _read_choices(self, name: str, block: Field[Any]) -> tuple[Value, ...]:
        setting = fields.read_member(block, "values")
        if setting is None or not isinstance(setting.value, list) or not setting.value:
            message = f"choice `{name}` of `search_space` has no `values`"
            self.refuse(message, "give a list, such as `values: [16, 32]`", setting or block)
            return ()
        for value in setting.value:
            if not isinstance(value, str | int | float | bool):
                message = f"choice `{name}` of `search_space` holds `{value}`"
                message += ", and only text, numbers and booleans are tried here"
                self.refuse(message, "give the members of a nested space as parameters of their own", setting)
                return ()
        return tuple(setting.value)

    def _check_distributions(self, algorithm: Algorithm, parameters: list[Parameter]) -> None:
        allowed = {"grid": frozenset({"choice"}), "bayesian": frozenset(BAYESIAN)}.get(algorithm)
        if allowed is None:
            return
        space = self.read_setting("search_space")
        for parameter in parameters:
            if parameter.kind not in allowed:
                self.refuse(
                    f"`{parameter.name}` is of type `{parameter.kind}`, which `{algorithm}` sampling"
                    " does not take",
                    f"use {', '.join(sorted(allowed))}, or `sampling_algorithm: random`",
                    fields.read_member(fields.read_member(space, parameter.name), "type"),
                )

    def _check_library(self, algorithm: Algorithm) -> None:
        library = LIBRARIES.get(algorithm)
        if library is not None and importlib.util.find_spec(library) is None:
            self.refuse(
                f"`{algorithm}` sampling needs the library `{library}`, which is not installed here",
                "run `pip install 'worldsize[sweep]'`, or use plain `sampling_algorithm: random`",
                self.read_setting("sampling_algorithm"),
            )

    def _read_metric(self, objective: Field[Any] | None) -> str:
        setting = fields.read_member(objective, "primary_metric")
        if setting is None or not isinstance(setting.value, str) or not setting.value:
            help_ = "name what the trial logs to MLflow: `objective: {goal: minimize, primary_metric: loss}`"
            self.refuse(f"sweep `{self.step.name}` has no `primary_metric`", help_, setting or objective)
            return ""
        return setting.value

    def _choose_word(self, block: Field[Any] | None, where: str, name: str, words: tuple[str, ...]) -> str:
        setting = fields.read_member(block, name)
        word = str(setting.value).lower() if setting is not None else None
        if word not in words:
            message = f"`{name}` of `{where}` is " + (f"`{setting.value}`" if setting else "missing")
            self.refuse(message, f"write {' or '.join(words)}", setting or block)
            return words[0]
        return word

    def _read_policy(self) -> EarlyTermination | None:
        block = self.read_setting("early_termination")
        if block is None or block.value is None:
            return None
        kind = self._choose_word(block, "early_termination", "type", tuple(POLICIES))
        slack = {name: self._read_slack(block, name) for name in ("slack_factor", "slack_amount")}
        if kind == "bandit" and not any(slack.values()):
            self.refuse(
                "a `bandit` policy needs a slack", "give `slack_factor: 0.1` or `slack_amount: 0.2`", block
            )
        percentage = 0
        if kind == "truncation_selection":
            percentage = self._read_whole(block, "truncation_percentage", None) or 0
            if percentage > 99:
                message = f"`truncation_percentage` is {percentage}"
                self.refuse(message, "give a whole number from 1 to 99", block)
        excluded = fields.read_member(block, "exclude_finished_jobs")
        return EarlyTermination(
            kind=cast("Literal['bandit']", kind),
            # The SDK sends 0 by default, which means every interval.
            evaluation_interval=max(1, self._read_whole(block, "evaluation_interval", 1, least=0) or 1),
            delay_evaluation=self._read_whole(block, "delay_evaluation", 0, least=0) or 0,
            slack_factor=slack["slack_factor"],
            slack_amount=slack["slack_amount"],
            truncation_percentage=percentage,
            exclude_finished_jobs=excluded is not None and excluded.value is True,
        )

    def _read_slack(self, block: Field[Any], name: str) -> float | None:
        setting = fields.read_member(block, name)
        if setting is None or setting.value is None:
            return None
        number = literals.parse_number(self.resolve(setting.value))
        if number is None or number < 0:
            self.refuse(f"`{name}` is `{setting.value}`", "give a number of 0 or more", setting)
            return None
        return float(number)

    def _read_whole(
        self, block: Field[Any] | None, name: str, default: int | None, *, least: int = 1, needed: bool = True
    ) -> int | None:
        """A whole number; without a default it is required, unless it is not ``needed``."""
        setting = fields.read_member(block, name)
        if setting is None or setting.value is None:
            if default is None and needed and name != "max_concurrent_trials":
                message = f"sweep `{self.step.name}` has no `{name}`"
                self.refuse(message, f"give a whole number, such as `{name}: 20`", block)
            return default
        return self.whole(setting, name, default, least)


DRIVER = Path(__file__).parents[1] / "worldsize_parallel"
TABLE_READERS = tuple(Path(str(package.__file__)).parent for package in (wsshards, wssources))
END = "WORLDSIZE_PARALLEL_END"  # closes the lines
SIZE = re.compile(r"\s*(\d+)\s*(?:(b|kb|mb|gb)\s*)?", re.IGNORECASE)
LEVELS = ("DEBUG", "INFO", "WARN", "WARNING")
DEFAULT_RETRIES = 2  # Microsoft Learn, "Use parallel jobs in pipelines"
DEFAULT_TIMEOUT = 60  # seconds a mini-batch, as there


def read_parallel(
    step: Step, resolve: Callable[[Any], Any] = lambda value: value
) -> tuple[Component | None, list[Problem]]:
    """Read a parallel step as the command component that runs the driver, and its problems.

    ``resolve`` replaces a setting that is bound to an input of the pipeline by its value.
    """
    reader = _ParallelReader(step, resolve)
    component = reader.component()
    return (None if reader.problems else component), reader.problems


class _ParallelReader(SettingsReader):
    def component(self) -> Component | None:
        component = self.step.component
        task = self._find_setting("task")
        if component is None or task is None or not isinstance(task.value, dict):
            help_ = "give `task: {type: run_function, code: ./src, entry_script: score.py, environment: …}`"
            self.refuse(f"parallel step `{self.step.name}` has no `task`", help_, task)
            return None
        kind = fields.read_member(task, "type")
        if kind is not None and str(kind.value).lower() not in ("run_function", "function"):
            help_ = "write `type: run_function` and an `entry_script` with `init` and `run`"
            self.refuse(f"a parallel `task` of type `{kind.value}` is not run here", help_, kind)
        lines = {**self._describe_settings(), **self._describe_task(task)}
        includes = [DRIVER, *(TABLE_READERS if lines["input_type"] == "mltable" else ())]
        return replace(
            component,
            type="command",
            command=Field(driver_command(lines), task.span, task.key_span),
            code=fields.read_member(task, "code"),
            environment=fields.read_member(task, "environment"),
            distribution=None,
            additional_includes=Field([str(folder) for folder in includes]),
        )

    def _find_setting(self, name: str) -> Field[Any] | None:
        """A setting of the step, else of its component."""
        component = self.step.component
        for raw in (self.step.raw, component.raw if component else None):
            setting = fields.read_field(raw, name) if isinstance(raw, YamlMapping) else None
            if setting is not None:
                return setting
        return None

    def _describe_settings(self) -> dict[str, str]:
        resources = self._find_setting("resources")
        instances = self.whole(fields.read_member(resources, "instance_count"), "instance_count", 1)
        concurrency = self.whole(
            self._find_setting("max_concurrency_per_instance"), "max_concurrency_per_instance", 1
        )
        retry = self._find_setting("retry_settings")
        retries = self.whole(fields.read_member(retry, "max_retries"), "max_retries", DEFAULT_RETRIES, 0)
        timeout = self.whole(fields.read_member(retry, "timeout"), "timeout", DEFAULT_TIMEOUT)
        thresholds = ("error_threshold", "mini_batch_error_threshold")
        return {
            "workers": str(instances * concurrency),
            "mini_batch_size": self._read_size(),
            "partition_keys": self._read_keys(),
            **{name: str(self.whole(self._find_setting(name), name, -1, -1)) for name in thresholds},
            "max_retries": str(retries),
            "timeout": str(timeout),
            "logging_level": self._read_level(),
            **self._describe_input(),
        }

    def _describe_task(self, task: Field[Any]) -> dict[str, str]:
        script = fields.read_member(task, "entry_script")
        if script is None or not isinstance(script.value, str) or not script.value.strip():
            message = f"the `task` of parallel step `{self.step.name}` has no `entry_script`"
            self.refuse(message, "name the Python file in `code` that has `init` and `run`", script or task)
        append = fields.read_member(task, "append_row_to")
        arguments = fields.read_member(task, "program_arguments")
        return {
            "entry_script": str(script.value).strip() if script else "",
            "append_row_to": str(append.value) if append is not None and append.value else "",
            "program_arguments": " ".join(str(arguments.value).split("\n")) if arguments else "",
        }

    def _describe_input(self) -> dict[str, str]:
        """The data, and its type by the step, else by the port."""
        setting = self._find_setting("input_data")
        expression = binding.parse_expression(setting.value) if setting is not None else None
        ports = self.step.component.inputs if self.step.component else {}
        name = expression.port or "" if expression is not None and expression.scope == "inputs" else ""
        if name not in ports:
            data = [name for name, port in ports.items() if port.is_data]
            named = f"is `{setting.value}`, which is not one of its inputs" if setting else "is missing"
            help_ = f"write `input_data: ${{{{inputs.{data[0] if data else 'data'}}}}}`"
            self.refuse(f"`input_data` of parallel step `{self.step.name}` {named}", help_, setting)
            return {"input_data": "", "input_type": "uri_folder"}
        argument = fields.read_member(self.read_setting("inputs"), name)
        declared = fields.read_member(argument, "type")
        type_ = ports[name].type
        if declared is not None and isinstance(declared.value, str):
            type_ = declared.value
        return {"input_data": str(expression), "input_type": type_.lower()}

    def _read_size(self) -> str:
        setting = self._find_setting("mini_batch_size")
        if setting is None or setting.value is None:
            return ""
        value = str(self.resolve(setting.value))
        match = SIZE.fullmatch(value)
        if match is None or int(match.group(1)) < 1:
            help_ = 'give a number of files, such as "10", or a size of rows, such as "1mb"'
            self.refuse(f"`mini_batch_size` is `{setting.value}`", help_, setting)
            return ""
        return match.group(1) + (match.group(2) or "").lower()

    def _read_keys(self) -> str:
        setting = self._find_setting("partition_keys")
        if setting is None or not setting.value:
            return ""
        keys = setting.value if isinstance(setting.value, list) else [setting.value]
        if not all(isinstance(key, str) and key.strip() and "," not in key for key in keys):
            self.refuse(f"`partition_keys` is `{setting.value}`", "give a list of names of columns", setting)
            return ""
        return ",".join(keys)

    def _read_level(self) -> str:
        setting = self._find_setting("logging_level")
        if setting is None or setting.value is None:
            return "INFO"
        if str(setting.value).upper() not in LEVELS:
            self.refuse(f"`logging_level` is `{setting.value}`", "write DEBUG, INFO or WARNING", setting)
        return str(setting.value).upper()


def driver_command(lines: dict[str, str]) -> str:
    """The shell line that runs the driver with these settings."""
    settings = "\n".join(f"{name}={value}" for name, value in lines.items() if value)
    return f"python -m {DRIVER.name} <<'{END}'\n{settings}\n{END}"

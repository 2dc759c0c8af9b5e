"""Reads a parallel step as a command step that runs our driver.

The driver is the package ``worldsize_parallel``. It is added to the step's working folder like an include, so
that it runs wherever the step does, in the step's own interpreter; so are the packages that read an MLTable.
The command passes its settings as ``name=value`` lines on standard input, so that placeholders are filled in
as in any command, and no shell interprets the values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import wsshards
import wssources
from worldsize.azureml import binding, fields
from worldsize.azureml.model import Component, Field, Step
from worldsize.base.problem import Problem
from worldsize.documents.yaml.nodes import Mapping as YamlMapping
from worldsize.running.prepare.graph.refusals import SettingsReader

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
            self.refuse(
                f"parallel step `{self.step.name}` has no `task`",
                "give `task: {type: run_function, code: ./src, entry_script: score.py, environment: …}`",
                task,
            )
            return None
        kind = fields.read_member(task, "type")
        if kind is not None and str(kind.value).lower() not in ("run_function", "function"):
            self.refuse(
                f"a parallel `task` of type `{kind.value}` is not run here",
                "write `type: run_function` and an `entry_script` with `init` and `run`",
                kind,
            )
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
        return {
            "workers": str(instances * concurrency),
            "mini_batch_size": self._read_size(),
            "partition_keys": self._read_keys(),
            "error_threshold": str(
                self.whole(self._find_setting("error_threshold"), "error_threshold", -1, -1)
            ),
            "mini_batch_error_threshold": str(
                self.whole(
                    self._find_setting("mini_batch_error_threshold"), "mini_batch_error_threshold", -1, -1
                )
            ),
            "max_retries": str(
                self.whole(fields.read_member(retry, "max_retries"), "max_retries", DEFAULT_RETRIES, 0)
            ),
            "timeout": str(self.whole(fields.read_member(retry, "timeout"), "timeout", DEFAULT_TIMEOUT)),
            "logging_level": self._read_level(),
            "input_data": self._input_data(),
            "input_type": self._input_type(),
        }

    def _describe_task(self, task: Field[Any]) -> dict[str, str]:
        script = fields.read_member(task, "entry_script")
        if script is None or not isinstance(script.value, str) or not script.value.strip():
            self.refuse(
                f"the `task` of parallel step `{self.step.name}` has no `entry_script`",
                "name the Python file in `code` that has `init` and `run`",
                script or task,
            )
        append = fields.read_member(task, "append_row_to")
        arguments = fields.read_member(task, "program_arguments")
        return {
            "entry_script": str(script.value).strip() if script else "",
            "append_row_to": str(append.value) if append is not None and append.value else "",
            "program_arguments": " ".join(str(arguments.value).split("\n")) if arguments else "",
        }

    def _input_data(self) -> str:
        setting = self._find_setting("input_data")
        expression = binding.parse_expression(setting.value) if setting is not None else None
        ports = self.step.component.inputs if self.step.component else {}
        if expression is None or expression.scope != "inputs" or expression.port not in ports:
            data = [name for name, port in ports.items() if port.is_data]
            named = (
                f"is `{setting.value}`, which is not one of its inputs"
                if setting is not None
                else "is missing"
            )
            self.refuse(
                f"`input_data` of parallel step `{self.step.name}` {named}",
                f"write `input_data: ${{{{inputs.{data[0] if data else 'data'}}}}}`",
                setting,
            )
            return ""
        return f"{expression!s}"

    def _input_type(self) -> str:
        """The type of the data, by the step, else by the port."""
        setting = self._find_setting("input_data")
        expression = binding.parse_expression(setting.value) if setting is not None else None
        name = expression.port or "" if expression is not None else ""
        ports = self.step.component.inputs if self.step.component else {}
        argument = (
            fields.read_field(self.step.raw, "inputs") if isinstance(self.step.raw, YamlMapping) else None
        )
        declared = fields.read_member(fields.read_member(argument, name), "type")
        if declared is not None and isinstance(declared.value, str):
            return declared.value.lower()
        return ports[name].type.lower() if name in ports else "uri_folder"

    def _read_size(self) -> str:
        setting = self._find_setting("mini_batch_size")
        if setting is None or setting.value is None:
            return ""
        value = str(self.resolve(setting.value))
        match = SIZE.fullmatch(value)
        if match is None or int(match.group(1)) < 1:
            self.refuse(
                f"`mini_batch_size` is `{setting.value}`",
                'give a number of files, such as "10", or a size of rows, such as "1mb"',
                setting,
            )
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

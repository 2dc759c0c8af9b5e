"""The settings of the step, which the driver reads from its standard input."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
DEFAULT_FILES, DEFAULT_BYTES = 1, 1 << 20
AGGREGATED = "parallel_run_step.txt"  # Azure ML's name where `append_row_to` is a folder


class DriverError(Exception):
    """The step cannot continue; the message is for the user."""


@dataclass(frozen=True)
class Settings:
    """A parallel step. Thresholds of -1 ignore every failure; times are in seconds."""

    input_data: Path
    input_type: str
    entry_script: Path
    arguments: tuple[str, ...]  # what the entry script sees as its own
    workers: int
    mini_batch_size: str  # a number of files, or a size with its unit
    partition_keys: tuple[str, ...]
    error_threshold: int
    mini_batch_error_threshold: int
    allowed_failed_percent: float
    max_retries: int
    timeout: float
    logging_level: str
    append_row_to: Path | None
    append_header: bool

    @property
    def file_count(self) -> int:
        """Files of a mini-batch.

        Raises:
            DriverError: The setting is a size.
        """
        if not self.mini_batch_size:
            return DEFAULT_FILES
        if not self.mini_batch_size.isdigit():
            size = self.mini_batch_size
            raise DriverError(f'`mini_batch_size` is `{size}`, but the input is files: say how many, as "10"')
        return int(self.mini_batch_size)

    @property
    def byte_count(self) -> int:
        """Bytes of the rows of a mini-batch, roughly."""
        if not self.mini_batch_size:
            return DEFAULT_BYTES
        unit = self.mini_batch_size.lstrip("0123456789")
        return int(self.mini_batch_size[: len(self.mini_batch_size) - len(unit)]) * UNITS[unit]


def read(lines: Iterable[str]) -> Settings:
    """Read ``name=value`` lines.

    Raises:
        DriverError: The arguments cannot be split.
    """
    values = dict(line.rstrip("\n").split("=", 1) for line in lines if "=" in line)
    try:
        arguments = shlex.split(values.get("program_arguments", ""))
    except ValueError as error:
        raise DriverError(f"`program_arguments` cannot be taken apart: {str(error).lower()}") from error
    options = _own(arguments)
    keys = tuple(key for key in values.get("partition_keys", "").split(",") if key)
    failed = _stricter(int(values["mini_batch_error_threshold"]), options.mini_batch_error_threshold)
    return Settings(
        input_data=Path(values["input_data"]),
        input_type=values.get("input_type", "uri_folder"),
        entry_script=Path(values["entry_script"]),
        arguments=(*arguments, *_added(values, arguments, keys)),
        workers=int(values["workers"]),
        mini_batch_size=values.get("mini_batch_size", ""),
        partition_keys=keys,
        error_threshold=_stricter(int(values["error_threshold"]), options.error_threshold),
        mini_batch_error_threshold=_stricter(failed, options.allowed_failed_count),
        allowed_failed_percent=options.allowed_failed_percent,
        max_retries=int(values["max_retries"]),
        timeout=float(values["timeout"]),
        logging_level=values["logging_level"],
        append_row_to=_place(values.get("append_row_to", "")),
        append_header=options.append_row_dataframe_header.lower() == "true",
    )


def _own(arguments: list[str]) -> argparse.Namespace:
    """The program arguments for the driver; the entry script sees them too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("error_threshold", "mini_batch_error_threshold", "allowed_failed_count"):
        parser.add_argument(f"--{name}", type=int, default=-1)
    parser.add_argument("--allowed_failed_percent", type=float, default=100.0)
    parser.add_argument("--append_row_dataframe_header", default="False")
    parser.exit_on_error = False
    try:
        return parser.parse_known_args(arguments)[0]
    except argparse.ArgumentError as error:
        raise DriverError(f"`program_arguments`: {error}") from error


def _added(values: dict[str, str], arguments: list[str], keys: tuple[str, ...]) -> list[str]:
    """The flags that Azure ML adds, so that a script that accepts only its own fails here too."""
    flags = {
        "--scoring_module_name": values["entry_script"],
        "--error_threshold": values["error_threshold"],
        "--output_action": "append_row" if values.get("append_row_to") else "summary_only",
        "--logging_level": values["logging_level"],
        "--run_invocation_timeout": values["timeout"],
        "--run_max_try": str(int(values["max_retries"]) + 1),
    }
    if keys:
        flags["--partition_keys"] = json.dumps(keys)
    elif values.get("mini_batch_size"):
        flags["--mini_batch_size"] = values["mini_batch_size"]
    return [word for flag, value in flags.items() if flag not in arguments for word in (flag, value)]


def _stricter(one: int, other: int) -> int:
    """The smaller of two thresholds; -1 means none."""
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _place(text: str) -> Path | None:
    if not text:
        return None
    path = Path(text)
    return path / AGGREGATED if path.is_dir() or text.endswith(os.sep) else path

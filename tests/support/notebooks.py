"""Runs notebooks as they are, cell by cell in a real kernel, and goes on after a cell that fails.

``python tests/support/notebooks.py NOTEBOOK…`` prints a line for each cell, and exits with 1 if one failed.
Run it by ``worldsize serve --`` to give the notebooks a workspace.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

# Official notebooks take the first path for their own folder, as kernels had it until IPython 8.
FIRST_PATH = '--IPKernelApp.exec_lines=import sys; sys.path.insert(0, "")'


@dataclass(frozen=True)
class CellReport:
    """How one code cell went; ``error`` is empty if it passed."""

    index: int  # among all cells, from 0
    first_line: str
    seconds: float
    error: str
    output: str


def run_notebook(
    path: Path, *, env: Mapping[str, str] | None = None, cell_seconds: int = 300
) -> Iterator[CellReport]:
    """Execute the code cells of a notebook in its own folder; its file stays as it is.

    Args:
        path: The notebook.
        env: The environment of its kernel; None for this process's own.
        cell_seconds: After so long a cell is interrupted and counts as failed.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=cell_seconds,
        interrupt_on_timeout=True,
        kernel_name="python3",  # theirs are names of Azure's images
        allow_errors=True,
        extra_arguments=[FIRST_PATH],
        resources={"metadata": {"path": str(path.parent)}},
    )
    with client.setup_kernel(env=dict(os.environ if env is None else env)):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "code" and cell.source.strip():
                yield _run_cell(client, cell, index)


def _run_cell(client: NotebookClient, cell: nbformat.NotebookNode, index: int) -> CellReport:
    begun = time.perf_counter()
    with contextlib.suppress(CellExecutionError):  # its error is among the outputs
        client.execute_cell(cell, index)
    errors = [out for out in cell.outputs if out.output_type == "error"]
    error = "\n".join(f"{out.ename}: {out.evalue}" for out in errors)
    texts = [
        out.get("text") or out.get("data", {}).get("text/plain", "")
        for out in cell.outputs
        if out.output_type != "error"
    ]
    return CellReport(
        index, cell.source.strip().splitlines()[0], time.perf_counter() - begun, error, "".join(texts)
    )


def main(arguments: list[str]) -> int:
    """The command line; the number of failed cells decides the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--cell-seconds", type=int, default=300)
    parser.add_argument("--outputs", action="store_true", help="print what each cell prints")
    options = parser.parse_args(arguments)
    failed = 0
    for path in options.notebooks:
        reports = []
        for report in run_notebook(path.absolute(), cell_seconds=options.cell_seconds):
            reports.append(report)
            mark = "failed" if report.error else "ok"
            print(f"[{report.index}] {mark} {report.seconds:.1f}s {report.first_line[:70]}", flush=True)
            if options.outputs and report.output:
                print(report.output)
            if report.error:
                print("    " + report.error[:2000].replace("\n", "\n    "), flush=True)
        bad = sum(bool(report.error) for report in reports)
        failed += bad
        print(f"{path}: {len(reports) - bad} of {len(reports)} cells passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

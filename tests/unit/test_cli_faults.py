"""The command line where the world around it is broken, or worldsize itself is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from worldsize import __main__ as program
from worldsize import checking
from worldsize.cli import crash, main
from worldsize.cli.run import exit_on_refusal

SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train: {command: python -c 1, environment: "azureml:my-training:4", compute: gpu}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(crash.VARIABLE, raising=False)
    (tmp_path / "spec.yml").write_text(SPEC)
    return "spec.yml"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    command = f'worldsize() {{ "{sys.executable}" -m worldsize "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["worldsize", *arguments])
    with pytest.raises(SystemExit) as ended:
        program.main()
    return int(str(ended.value.code))


def test_a_fault_of_ours_is_one_line_and_status_3(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_path: Path, _document: object = None) -> None:
        raise KeyError("no\nsuch step")

    monkeypatch.setattr(checking, "check_spec", broken)
    assert call(monkeypatch, "plan", spec) == 3
    first, help_, *more = capsys.readouterr().err.splitlines()
    assert first.startswith("internal error: KeyError: 'no\\nsuch step' (unit/test_cli_faults.py:")
    assert "WORLDSIZE_TRACEBACK=1" in help_
    assert not more


def test_the_traceback_of_a_fault_is_shown_on_request(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(crash.VARIABLE, "1")
    monkeypatch.setattr(checking, "check_spec", lambda *_: {}[0])
    assert call(monkeypatch, "plan", spec) == 3
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.splitlines()[-1].startswith("internal error: KeyError: 0")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "out/plan.json"),
            1,
            "error: `out/plan.json`: no space",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file", "schemas/x"),
            3,
            "internal error: FileNotFoundError",
        ),
        (RecursionError("too deep"), 3, "internal error: RecursionError: too deep"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_reaches_the_top_decides_the_status(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert crash.report_crash(error) == status
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.smoke
@pytest.mark.run  # starts Python
@pytest.mark.parametrize("arguments", ["plan spec.yml", "check spec.yml", "compile spec.yml -o out", "-h"])
def test_a_full_standard_output_is_said_in_one_line(spec: str, arguments: str) -> None:
    result = shell(f"worldsize {arguments} > /dev/full")
    lines = [
        line for line in result.stderr.splitlines() if line.startswith(("error", "internal", "Trace", "Exc"))
    ]
    assert lines == ["error: output could not be written: no space left on device"]
    assert result.returncode == 1


@pytest.mark.parametrize(
    "arguments", ["plan spec.yml", "check spec.yml", "compile spec.yml -o out", "explain WS203"]
)
@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_closed_standard_streams_are_nobodys_fault(spec: str, tmp_path: Path, arguments: str) -> None:
    result = shell(f"worldsize {arguments} <&- >&- 2>&-; echo $?")
    assert (result.stdout, result.stderr) == ("0\n", "")
    if "compile" in arguments:  # nothing of what was meant for the terminal went into a file
        assert (tmp_path / "out/pipeline.yml").read_text().startswith("#")


@pytest.mark.smoke
@pytest.mark.run  # starts Python
def test_a_reader_that_goes_away_ends_quietly(spec: str) -> None:
    assert shell("worldsize explain | true").stderr == ""
    assert (
        shell(
            'for i in {1..2000}; do echo "x$i: 1"; done >> spec.yml; worldsize check spec.yml | true'
        ).stderr
        == ""
    )


@pytest.mark.parametrize(
    ("word", "near"), [("chek", "did you mean `check`?"), ("zzzzzz", "`worldsize --help` lists them")]
)
def test_an_unknown_command_names_the_nearest(word: str, near: str) -> None:
    result = CliRunner().invoke(main, [word, "."])
    assert result.exit_code == 2
    assert f"there is no command `{word}`: {near}" in result.output


def test_ctrl_c_has_the_status_of_a_signal(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_path: Path, _document: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "check_spec", interrupted)
    assert CliRunner().invoke(main, ["plan", spec]).exit_code == 130


@pytest.mark.smoke
@pytest.mark.run  # starts Python
@pytest.mark.parametrize("arguments", ["plan", "check", "run --dry-run"])
def test_a_working_folder_that_is_gone_is_said(tmp_path: Path, spec: str, arguments: str) -> None:
    result = shell(f"mkdir gone; cd gone; rmdir ../gone; worldsize {arguments} {tmp_path / spec}")
    assert result.returncode in (0, 1)
    assert "internal error" not in result.stderr
    assert result.returncode == 0 or result.stderr.startswith("error: the working folder was removed\n")


def test_a_full_disk_while_a_run_compiles_is_one_error(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "pipeline.yml")

    monkeypatch.setattr("worldsize.api.output_folder._write", full)
    assert call(monkeypatch, "run", spec, "--no-track", "--runs-dir", "home") == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "error" in line] == lines[:1]
    assert "could not be written: no space left on device (`pipeline.yml`)" in lines[0]
    assert not list(Path("home/runs").iterdir())


def test_a_signal_outside_of_the_steps_has_a_status_of_its_own() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended, exit_on_refusal():
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, handler)

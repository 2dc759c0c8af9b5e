"""Parallel steps with real workers: mini-batches that fail, crash and hang; tables; nobody left behind."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(90)]

PIPELINE = """
    type: pipeline
    settings: {default_compute: azureml:c}
    jobs:
      score:
        type: parallel
        inputs:
          data: {type: uri_folder, path: ./data}
          bias: 100
        outputs: {rows: {type: uri_file}}
        input_data: ${{inputs.data}}
        mini_batch_size: "2"
        resources: {instance_count: 2}
        max_concurrency_per_instance: 2
        mini_batch_error_threshold: 1
        retry_settings: {max_retries: 1, timeout: 3}
        task:
          type: run_function
          code: ./src
          entry_script: score.py
          environment: azureml:e:1
          program_arguments: >-
            --bias ${{inputs.bias}} --text "it's two words"
          append_row_to: ${{outputs.rows}}
      count:
        command: wc -l < ${{inputs.rows}}
        environment: azureml:e:1
        inputs: {rows: "${{parent.jobs.score.outputs.rows}}"}
"""
SCORE = """
    import argparse, os, signal, time
    from pathlib import Path

    def once(name):
        try:
            return bool(os.close(os.open(name, os.O_CREAT | os.O_EXCL)) or True)
        except FileExistsError:
            return False

    def init():
        global given
        parser = argparse.ArgumentParser()
        parser.add_argument("--bias", type=int)
        parser.add_argument("--text")
        given = parser.parse_known_args()[0]
        assert given.text == "it's two words"
        print("init")

    def run(files, mini_batch_context):
        for file in files:
            value = int(Path(file).read_text())
            if value == 4 and once("crashed"):
                os.kill(os.getpid(), signal.SIGKILL)
            if value == 7 and once("hung"):
                time.sleep(60)
            if value == 9:
                raise ValueError("nine")
        return [f"{int(Path(file).read_text()) + given.bias}" for file in files]

    def shutdown():
        print("shutdown")
"""


def prepare(project: Any, score: str = SCORE) -> None:
    project.write("pipeline.yml", PIPELINE)
    project.write("src/score.py", score)
    for number in range(1, 12):
        project.write(f"data/{number % 3}/{number}.txt", str(number))


@pytest.mark.smoke
def test_crashes_and_hangs_are_tried_again_and_no_item_is_lost_or_doubled(project: Any) -> None:
    prepare(project)
    code, text = project.run("pipeline.yml")
    assert code == 0, text
    said = project.log("score")
    assert "its worker was killed by SIGKILL; it is tried again" in said
    assert "its worker took longer than 3 s; it is tried again" in said
    assert said.splitlines()[-1] == (
        "6 mini-batches: 5 succeeded, 1 failed, 3 tried again; 11 items: 9 processed, 2 failed"
    )
    step = project.newest / "steps" / "score"
    rows = (step / "outputs" / "rows").read_text().split()
    # Files are sorted by their folders: 9 failed for good, and 6 or 3 shared its mini-batch.
    assert rows == ["103", "106", "110", "104", "107", "111", "102", "105", "108"]
    assert project.log("count").strip() == "9"
    logs = "".join(path.read_text() for path in (step / "code" / "logs").glob("worker-*.log"))
    assert logs.count("init\n") == 6  # four workers, and two in the places of lost ones
    assert logs.count("shutdown\n") == 4


def test_too_many_failures_end_the_step_and_say_which_threshold(project: Any) -> None:
    prepare(project, SCORE.replace("value == 9", "value in (6, 9, 11)"))
    code, text = project.run("pipeline.yml")
    assert code == 1
    assert "2 mini-batches failed, and `mini_batch_error_threshold` is 1" in text
    assert not (project.newest / "steps" / "score" / "outputs" / "rows").exists()
    prepare(project, SCORE.replace('print("init")', "import nothing_of_this_name"))
    code, text = project.run("pipeline.yml")
    assert code == 1
    assert "`score.py` cannot be used: ModuleNotFoundError: No module named 'nothing_of_this_name'" in text


def test_a_killed_driver_leaves_no_worker(project: Any) -> None:
    prepare(project, SCORE.replace("for file in files:", "time.sleep(60)\n        for file in files:"))
    with project.start("pipeline.yml") as process:
        project.wait_for("worker-03.log")
        drivers = [each for each in project.processes() if each.cmdline()[1:] == ["-m", "worldsize_parallel"]]
        os.kill(drivers[0].pid, signal.SIGKILL)
        text, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "was killed by SIGKILL" in text or "exit status 137" in text
    assert project.nothing_left()


@pytest.mark.smoke
def test_rows_of_a_table_come_in_mini_batches_and_keep_their_order(project: Any) -> None:
    pytest.importorskip("pandas")
    prepare(
        project,
        """
        import pandas

        def run(frame: pandas.DataFrame):
            return frame.assign(double=frame["n"] * 2)
        """,
    )
    project.write(
        "data/MLTable", "paths: [{file: t.csv}]\ntransformations: [read_delimited: {delimiter: ';'}]\n"
    )
    project.write("data/t.csv", "n;name\n" + "".join(f"{number};x{number}\n" for number in range(300)))
    text = PIPELINE.replace("type: uri_folder, path: ./data", "type: mltable, path: ./data")
    project.write(
        "pipeline.yml",
        text.replace('"2"', "1kb").replace("--bias", "--append_row_dataframe_header True --bias"),
    )
    code, said = project.run("pipeline.yml")
    assert code == 0, said
    rows = (project.newest / "steps" / "score" / "outputs" / "rows").read_text().splitlines()
    assert rows == ["n name double", *(f"{number} x{number} {number * 2}" for number in range(300))]
    assert "3 mini-batches of 300 rows" in project.log("score")

"""How tasks are fitted to a machine: a plan shrinks and keeps its global batch, a native job stays."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from worldsize import api
from worldsize.azureml import job
from worldsize.planning import plan_file
from worldsize.running.launch.machine import Machine
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.task import Text
from worldsize.running.prepare.fit import FittedTasks, Room, fit_tasks, reconstruct_plan
from worldsize.running.prepare.graph.flatten import flatten

SPEC = """
    name: planned
    compute:
      gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4, max_instances: 2}
    steps:
      train:
        compute: gpu
        instance_count: 2
        distribution: {type: KIND}
        code: ./src
        environment: azureml:any@latest
        command: echo ${{plan.world_size}} ${{plan.gradient_accumulation_steps}}
        scale: {reference: {batch_size: 32, learning_rate: 0.05}, optimizer: sgd, rows: 4096, epochs: 3}
"""

PIPELINES = Path(__file__).parents[2] / "pipelines"
ACCUMULATES = "echo ${{plan.world_size}} ${{plan.gradient_accumulation_steps}}"


def fit(
    path: Path, machine: Machine, processes: int | None = None, *, keep_instances: bool = False
) -> FittedTasks:
    found, _ = job.read_job(path)
    assert found is not None
    read, problems = flatten(found, AssetMap())
    assert problems == []
    plan, templates = plan_file.load(path.parent) or reconstruct_plan(read.tasks)
    return fit_tasks(read.tasks, path, plan, templates, Room(machine, processes, keep_instances))


def planned(
    folder: Path,
    kind: str,
    machine: Machine,
    processes: int | None = None,
    *,
    keep_instances: bool = False,
    command: str = ACCUMULATES,
    more: str = "",
) -> FittedTasks:
    (folder / "src").mkdir()
    (folder / "src" / "empty.txt").touch()
    spec = folder / "spec.yml"
    text = textwrap.dedent(SPEC).replace("KIND", kind).replace(ACCUMULATES, command)
    spec.write_text(f"{text.rstrip()}\n{more}", encoding="utf-8")
    pipeline = api.compile(spec, folder / "build").pipeline
    return fit(pipeline, machine, processes, keep_instances=keep_instances)


GPUS = Machine(16, ("0", "1", "2", "3"))


@pytest.mark.parametrize(
    ("machine", "processes", "workers", "gpus", "accumulation"),
    [
        (Machine(2), None, 2, 1, 4),  # without GPUs a replica is a worker of its own
        (Machine(2), 4, 4, 1, 2),
        (Machine(2), 1, 1, 1, 8),
        (GPUS, None, 2, 2, 2),  # both planned workers, each with its share of the GPUs
        (Machine(16, ("0",)), None, 1, 1, 8),
    ],
)
def test_a_tensorflow_plan_keeps_a_worker_an_instance(
    tmp_path: Path, machine: Machine, processes: int | None, *, workers: int, gpus: int, accumulation: int
) -> None:
    fitted = planned(tmp_path, "tensorflow", machine, processes)
    task = fitted.tasks["train"]
    assert (task.instance_count, task.worker_count, task.gpus_per_process) == (workers, workers, gpus)
    world = workers * gpus
    filled = {name: source.value for name, source in task.inputs.items() if isinstance(source, Text)}
    assert filled == {"world_size": world, "gradient_accumulation_steps": accumulation}
    here = f"{workers} worker{'s' * (workers > 1)}" + (f" × {gpus} GPUs" if gpus > 1 else "")
    (notice,) = fitted.notices
    assert notice == (
        f"train: planned for 8 replicas (2 workers × 4 GPUs), running {world} here ({here})"
        f" with accumulation ×{accumulation},"
        " global batch 256 unchanged"
    )


@pytest.mark.parametrize("kind", ["mpi", "pytorch"])
def test_a_plan_of_ranks_runs_on_one_instance(tmp_path: Path, kind: str) -> None:
    task = planned(tmp_path, kind, Machine(2)).tasks["train"]
    assert (task.launcher, task.instance_count, task.process_count_per_instance) == (kind, 1, 2)
    assert task.worker_count is None


@pytest.mark.parametrize(
    ("kind", "processes", "each", "said"),
    [
        ("pytorch", None, 1, "planned for 8 processes (2 × 4), running 2 here (2 × 1) with accumulation ×4"),
        ("mpi", 4, 2, "planned for 8 processes (2 × 4), running 4 here (2 × 2) with accumulation ×2"),
        (
            "tensorflow",
            4,
            2,
            "planned for 8 replicas (2 workers × 4 GPUs), running 4 here (4 workers) with accumulation ×2",
        ),
    ],
)
def test_a_plan_keeps_the_instances_that_are_machines_of_their_own(
    tmp_path: Path, kind: str, processes: int | None, *, each: int, said: str
) -> None:
    fitted = planned(tmp_path, kind, Machine(2), processes, keep_instances=True)
    task = fitted.tasks["train"]
    assert (task.instance_count, task.world_size) == (2, 2 * each)
    assert fitted.notices == [f"train: {said}, global batch 256 unchanged"]


def test_the_nodes_that_a_command_fixes_share_the_slots(tmp_path: Path) -> None:
    nodes = "--nnodes 2 --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
    command = f"torchrun {nodes} --nproc-per-node ${{{{plan.local_world_size}}}} -m train {ACCUMULATES}"
    task = planned(tmp_path, "pytorch", Machine(4), command=command).tasks["train"]
    assert task.instance_count == 2
    assert task.inputs["local_world_size"] == Text(2)


def test_processes_that_instances_cannot_share_are_refused(tmp_path: Path) -> None:
    (problem,) = planned(tmp_path, "pytorch", Machine(2), 5, keep_instances=True).problems
    assert problem.message == "`--processes 5` is not a multiple of the 2 instances of step `train`"
    assert problem.help == "say `--processes 4`, or leave it out"


FIXED = "echo --batch-size ${{plan.batch_size_per_device}} --lr ${{plan.learning_rate}}"
NOT_TOLD = "its command does not receive `gradient_accumulation_steps`"
PLANNED = "planned for 8 processes (2 × 4)"


@pytest.mark.parametrize(
    ("command", "machine", "processes", "world", "said"),
    [
        (  # the planned batch for each, and as many processes as keep the global batch
            FIXED,
            Machine(2),
            None,
            8,
            (
                f"all 8 processes share 2 cores, so this will be slow: {NOT_TOLD},"
                " and fewer would change its global batch of 256"
            ),
        ),
        ("echo --batch-size 32", Machine(8), None, 8, None),
        (
            FIXED,
            Machine(2),
            4,
            4,
            (
                f"{PLANNED}, running 4 here; {NOT_TOLD}, so an optimizer step takes 128 of"
                " the 256 planned samples at the learning rate planned for all of them"
            ),
        ),
        (
            "echo --batch-size 32",
            Machine(16, ("0", "1")),  # GPUs are not shared
            None,
            2,
            (
                f"{PLANNED}, running 2 here; {NOT_TOLD}, so an optimizer step takes 64 of"
                " the 256 planned samples"
            ),
        ),
        (
            "echo --global-batch-size ${{plan.global_batch_size}}",
            Machine(2),
            None,
            2,
            (
                f"{PLANNED}, running 2 here; its command receives the global batch 256,"
                " and has to divide it itself"
            ),
        ),
    ],
)
def test_the_global_batch_is_claimed_only_for_commands_that_can_keep_it(
    tmp_path: Path, command: str, machine: Machine, processes: int | None, *, world: int, said: str | None
) -> None:
    fitted = planned(tmp_path, "pytorch", machine, processes, command=command)
    assert fitted.tasks["train"].world_size == world
    assert fitted.notices == ([f"train: {said}"] if said else [])


def test_a_script_is_told_the_accumulation_by_a_variable_too(tmp_path: Path) -> None:
    variables = "    environment_variables: {ACCUMULATION: '${{plan.gradient_accumulation_steps}}'}\n"
    fitted = planned(tmp_path, "pytorch", Machine(2), command="echo trains", more=variables)
    task = fitted.tasks["train"]
    assert (task.world_size, task.environment_variables["ACCUMULATION"]) == (2, "4")
    assert fitted.notices[0].endswith("with accumulation ×4, global batch 256 unchanged")


def test_an_accumulation_that_was_pinned_by_hand_is_not_claimed(tmp_path: Path) -> None:
    inputs = "    with: {steps: 1}\n"
    command = "echo --accumulation ${{inputs.steps}}"
    fitted = planned(tmp_path, "pytorch", Machine(2), command=command, more=inputs)
    assert fitted.tasks["train"].world_size == 8


NATIVE = """
    type: command
    command: python train.py
    environment: azureml:any@latest
    resources: {instance_count: 3}
    distribution: DISTRIBUTION
"""


def native(
    folder: Path,
    distribution: str,
    machine: Machine,
    processes: int | None = None,
    *,
    keep_instances: bool = False,
) -> FittedTasks:
    path = folder / "job.yml"
    path.write_text(textwrap.dedent(NATIVE).replace("DISTRIBUTION", distribution), encoding="utf-8")
    return fit(path, machine, processes, keep_instances=keep_instances)


@pytest.mark.parametrize(
    ("distribution", "processes", "shape"),
    [
        ("{type: mpi, process_count_per_instance: 2}", None, (3, 6)),
        ("{type: mpi, process_count_per_instance: 2}", 3, (3, 3)),
        ("{type: tensorflow}", 6, (3, 6)),
    ],
)
def test_a_native_job_keeps_its_instances_too(
    tmp_path: Path, distribution: str, processes: int | None, shape: tuple[int, int]
) -> None:
    fitted = native(tmp_path, distribution, Machine(2), processes, keep_instances=True)
    task = fitted.tasks["command"]
    assert (task.instance_count, task.world_size) == shape


OTHER_BATCH = "a fixed batch for each process gives another global batch"
SLOW = "so this will be slow: `worldsize run --processes 2` starts fewer"
CROWDED = (
    "`worker_count` is 4 but `instance_count` is 3: 4 workers are started, and share instances and their GPUs"
)


@pytest.mark.parametrize(
    ("distribution", "processes", "world", "notices"),
    [
        ("{type: tensorflow}", None, 3, [f"3 processes share 2 cores, {SLOW}"]),
        ("{type: tensorflow, parameter_server_count: 2}", 2, 2, [f"2 processes instead of 3; {OTHER_BATCH}"]),
        (
            "{type: tensorflow, worker_count: 1, parameter_server_count: 1}",
            None,
            1,
            [
                "`worker_count` is 1 but `instance_count` is 3: 1 instance would cost money and run nothing",
            ],
        ),
        (
            "{type: tensorflow, worker_count: 4}",
            None,
            4,
            [CROWDED, f"4 processes share 2 cores, {SLOW}"],
        ),
        (
            "{type: mpi, process_count_per_instance: 2}",
            None,
            6,
            [f"6 processes share 2 cores, {SLOW}"],
        ),
        (
            "{type: mpi, process_count_per_instance: 2}",
            6,
            6,
            [f"6 processes share 2 cores, {SLOW}"],
        ),
        ("{type: mpi, process_count_per_instance: 2}", 2, 2, [f"2 processes instead of 6; {OTHER_BATCH}"]),
    ],
)
def test_a_native_job_keeps_its_world_unless_it_is_told(
    tmp_path: Path, distribution: str, processes: int | None, *, world: int, notices: list[str]
) -> None:
    fitted = native(tmp_path, distribution, Machine(2), processes)
    task = fitted.tasks["command"]
    assert task.world_size == world
    assert fitted.problems == []
    assert fitted.notices == [f"command: {notice}" for notice in notices]
    if processes is not None:
        assert task.instance_count == (processes if task.worker_count else 1)


def test_more_workers_than_gpus_is_impossible_here(tmp_path: Path) -> None:
    fitted = native(tmp_path, "{type: tensorflow}", Machine(8, ("0", "1")))
    (problem,) = fitted.problems
    assert problem.message == "step `command` starts 3 processes, one a GPU, but this machine has 2 GPUs"
    assert problem.help == (
        "write a smaller `worker_count`, for 2 in all; `worldsize run --processes 2` leaves the file as it is"
    )


@pytest.mark.parametrize(
    ("distribution", "processes", "said"),
    [
        ("{type: mpi, process_count_per_instance: 1000000000}", None, "starts 1000000000 processes"),
        ("{type: tensorflow, parameter_server_count: 99999}", None, "starts 100000 processes"),
        ("{type: pytorch}", 2_000_000_000, "starts 2000000000 processes"),
    ],
)
def test_more_processes_than_any_machine_starts_are_refused_before_they_are_listed(
    distribution: str, processes: int | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text(
        f"""
type: command
command: python t.py
environment: azureml:any@latest
distribution: {distribution}
""",
        encoding="utf-8",
    )
    fitted = fit(path, Machine(2), processes)
    assert [said in problem.message for problem in fitted.problems] == [True]


@pytest.mark.parametrize("kind", ["pytorch", "mpi"])
def test_a_compiled_pipeline_without_its_plan_file_is_fitted_the_same(tmp_path: Path, kind: str) -> None:
    with_file = planned(tmp_path, kind, Machine(2), command=TELLS_BATCH)
    (tmp_path / "build" / "plan.json").unlink()
    without = fit(tmp_path / "build" / "pipeline.yml", Machine(2))
    for fitted in (with_file, without):
        task = fitted.tasks["train"]
        assert (task.instance_count, task.process_count_per_instance) == (1, 2)
        accumulation = task.inputs["gradient_accumulation_steps"]
        assert isinstance(accumulation, Text)
        assert int(accumulation.rendered) == 4
    assert without.notices == with_file.notices
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in without.notices[0]


def test_numbers_that_are_no_plan_leave_a_pipeline_as_it_is(tmp_path: Path) -> None:
    planned(tmp_path, "pytorch", Machine(2), command=TELLS_BATCH)
    (tmp_path / "build" / "plan.json").unlink()
    path = tmp_path / "build" / "pipeline.yml"
    text = path.read_text()
    assert "world_size: 8" in text
    path.write_text(text.replace("world_size: 8", "world_size: 6"))
    fitted = fit(path, Machine(2))
    assert fitted.tasks["train"].world_size == 8
    assert "8 processes share 2 cores" in fitted.notices[0]


TELLS_BATCH = (
    "echo ${{plan.world_size}} ${{plan.gradient_accumulation_steps}} ${{plan.batch_size_per_device}}"
    " ${{plan.learning_rate}}"
)


@pytest.mark.parametrize("name", ["digits_ddp", "digits_horovod", "digits_tensorflow", "digits_sweep"])
def test_shipped_pipelines_need_no_plan_file(tmp_path: Path, name: str) -> None:
    pipeline = api.compile(PIPELINES / f"{name}.yml", tmp_path / "build").pipeline
    with_file = fit(pipeline, Machine(2))
    (tmp_path / "build" / "plan.json").unlink()
    without = fit(pipeline, Machine(2))
    for step, task in with_file.tasks.items():
        other = without.tasks[step]
        shape = (task.world_size, task.instance_count, task.worker_count, task.gpus_per_process)
        assert shape == (other.world_size, other.instance_count, other.worker_count, other.gpus_per_process)
        assert {n: s and repr(s) for n, s in task.inputs.items()} == {
            n: s and repr(s) for n, s in other.inputs.items()
        }
    assert without.tasks["train"].world_size == 2
    assert without.notices == with_file.notices


def test_a_step_that_was_added_to_a_compiled_pipeline_is_native(tmp_path: Path) -> None:
    pipeline = api.compile(PIPELINES / "digits_ddp.yml", tmp_path / "build").pipeline
    document = yaml.safe_load(pipeline.read_text())
    document["jobs"]["again"] = document["jobs"]["train"]
    pipeline.write_text(yaml.safe_dump(document))
    fitted = fit(pipeline, Machine(2))
    assert {name: task.world_size for name, task in fitted.tasks.items()}["again"] == 8
    assert fitted.notices[-1].startswith("again: 8 processes share 2 cores, so this will be slow")
    other = fit(pipeline, Machine(2), 2)
    assert other.tasks["again"].world_size == 2

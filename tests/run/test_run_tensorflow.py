"""TensorFlow's launcher: workers and parameter servers with TF_CONFIG, and who ends whom."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(240)]

JOB = """
    type: command
    compute: azureml:cpu
    environment: azureml:any@latest
    code: ./src
    command: {command}
    resources: {{instance_count: {instances}}}
    distribution: {{type: tensorflow, worker_count: 2, parameter_server_count: {servers}}}
"""
MIRRORED = """
    import json, os
    import tensorflow as tf

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def total(number):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: number + 0.0), axis=None)

    print(task["type"], task["index"], "sum", float(total(tf.constant(task["index"] + 1.0))))
"""
# Azure ML names no chief, so worker 0 coordinates; the others compute until it says that it has finished.
SERVERS = """
    import json, os, time
    import tensorflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    kind, index = config["task"]["type"], config["task"]["index"]
    first, *others = config["cluster"]["worker"]
    jobs = {"chief": [first], "worker": others, "ps": config["cluster"]["ps"]}
    if kind == "ps":
        server = tf.distribute.Server(jobs, job_name="ps", task_index=index, protocol="grpc")
        print("serving", flush=True)
        server.join()
    if index:
        server = tf.distribute.Server(jobs, job_name="worker", task_index=index - 1, protocol="grpc")
        while not os.path.exists("finished"):
            time.sleep(0.05)
        os._exit(0)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        count = tf.Variable(0.0)

    @tf.function
    def step():
        count.assign_add(1.0)

    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    print("count", float(count), flush=True)
    open("finished", "w").close()
    os._exit(0)
"""
# The environment of each process, without TensorFlow. A parameter server waits for ever.
WAIT = """
    import json, os, sys, time

    config = json.loads(os.environ["TF_CONFIG"])
    name = "{type}-{index}".format(**config["task"])
    print(name, config["cluster"], config["environment"], flush=True)
    open("up-" + name, "w").close()
    while "meet" in sys.argv and len([each for each in os.listdir() if each.startswith("up-")]) < 4:
        time.sleep(0.02)
    while name.startswith("ps") or name in sys.argv:
        time.sleep(600)
"""


def write(project: Any, command: str, *, instances: int = 2, servers: int = 0, **scripts: str) -> None:
    for name, text in scripts.items():
        project.write(f"src/{name}.py", text)
    project.write("job.yml", JOB.format(command=command, instances=instances, servers=servers))


def log(project: Any, process: str) -> str:
    return str((project.newest / "steps" / "command" / "logs" / f"{process}.log").read_text())


def ended(project: Any) -> dict[str, int]:
    return {
        event["process"]: event["status"] for event in project.events() if event["event"] == "process_ended"
    }


@pytest.mark.smoke
def test_two_workers_of_somebody_elses_script_reduce(project: Any) -> None:
    write(project, "python mirrored.py", mirrored=MIRRORED)
    with project.start("job.yml") as process:
        text, _ = process.communicate(timeout=200)
    assert process.returncode == 0, text
    assert [log(project, f"worker-{n}").splitlines()[-1] for n in range(2)] == [
        f"worker {n} sum 3.0" for n in range(2)
    ]


def test_a_parameter_server_is_ended_when_the_workers_have_finished(project: Any) -> None:
    write(project, "python servers.py", instances=3, servers=1, servers_=SERVERS)
    (project.folder / "src" / "servers_.py").rename(project.folder / "src" / "servers.py")
    with project.start("job.yml") as process:
        text, _ = process.communicate(timeout=200)
    assert process.returncode == 0, text
    assert "count 20.0" in log(project, "worker-0")
    assert "serving" in log(project, "ps-0")
    assert ended(project) == {"worker-0": 0, "worker-1": 0, "ps-0": -signal.SIGTERM}


def test_each_process_knows_its_task(project: Any) -> None:
    write(project, "python wait.py meet", instances=3, servers=2, wait=WAIT)
    status, text = project.run("job.yml")
    assert status == 0, text
    assert "command: running, 4 processes\n" in text
    clusters = set()
    for name in ("worker-0", "worker-1", "ps-0", "ps-1"):
        said, _, rest = log(project, name).strip().partition(" ")
        assert said == name
        cluster, _, where = rest.rpartition(" ")
        assert where == "cloud"
        clusters.add(cluster)
    (cluster,) = clusters
    jobs = json.loads(cluster.replace("'", '"'))
    assert {kind: len(addresses) for kind, addresses in jobs.items()} == {"worker": 2, "ps": 2}
    assert len({*jobs["worker"], *jobs["ps"]}) == 4
    assert project.nothing_left(0.5)


@pytest.mark.parametrize("victim", ["worker 1", "ps 0"])
def test_kill_nine_ends_the_run_within_ten_seconds(project: Any, victim: str) -> None:
    write(project, "exec python wait.py worker-0 worker-1", instances=3, servers=1, wait=WAIT)
    process = project.start("job.yml")
    project.wait_for("up-*", 3)
    task = dict(zip(("type", "index"), victim.split(), strict=True))
    (chosen,) = [each for each in project.processes() if is_task(each, task)]
    begin = time.monotonic()
    chosen.send_signal(signal.SIGKILL)
    text, _ = process.communicate(timeout=40)
    took = time.monotonic() - begin
    assert process.returncode == 1
    assert took < 10, took
    name = victim.replace(" ", "-")
    assert f"error: step `command` failed: {victim} was killed by SIGKILL\n" in text
    assert f"logs/{name}.log, its last lines:\n  | {name} " in text
    assert project.nothing_left(0.5), project.processes()


def is_task(process: Any, task: dict[str, str]) -> bool:
    config = json.loads(process.environ().get("TF_CONFIG", '{"task": {}}'))
    return {key: str(value) for key, value in config["task"].items()} == task


def test_a_worker_that_never_joins_is_named_at_the_timeout(project: Any) -> None:
    write(project, "python wait.py worker-1", instances=3, servers=1, wait=WAIT)
    project.write("job.yml", (project.folder / "job.yml").read_text() + "limits: {timeout: 3}\n")
    status, text = project.run("job.yml")
    assert status == 1
    message = "it was stopped at its timeout of 3 s, when worker 1 still ran and worker 0 had ended\n"
    assert f"error: step `command` failed: {message}" in text
    assert "logs/worker-1.log, its last lines:\n  | worker-1 " in text
    assert project.nothing_left(0.5)


@pytest.mark.smoke
def test_a_tf_config_of_ones_own_is_refused(project: Any) -> None:
    write(project, "python wait.py", wait=WAIT)
    job = (project.folder / "job.yml").read_text()
    project.write("job.yml", job + "environment_variables:\n  TF_CONFIG: '{}'\n")
    status, text = project.run("job.yml")
    assert status == 1
    assert "job.yml:10:14: error: `environment_variables` of step `command` sets `TF_CONFIG`, which" in text
    assert "10 |   TF_CONFIG: '{}'\n   |              ^^^^" in text
    assert not list((project.folder / ".worldsize" / "runs").iterdir())


@pytest.mark.smoke
def test_more_workers_than_instances_is_refused(project: Any) -> None:
    write(project, "python wait.py", instances=1, wait=WAIT)
    status, text = project.run("job.yml")
    assert status == 1
    assert "error[WS208] `worker_count` is 2 but `instance_count` is 1" in text


@pytest.mark.smoke
def test_a_tf_config_of_the_shell_is_not_passed_on(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}}')
    write(project, "python wait.py", instances=3, wait=WAIT)
    status, text = project.run("job.yml")
    assert status == 0, text
    assert "`TF_CONFIG` is set in this shell; it is not passed on" in text
    assert "`worker_count` is 2 but `instance_count` is 3: 1 instance would cost money" in text

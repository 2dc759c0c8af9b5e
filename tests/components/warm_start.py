"""Starts processes as forks of one that has loaded their libraries, which takes longer than most trainings.

python warm_start.py serve SOCKET torch mlflow    load libraries, print a line, and fork for every call
python warm_start.py call SOCKET python train.py  be that fork: its output, signals and exit status
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
from pathlib import Path

SECONDS = 0.02  # between two looks at whether a process or its call has ended, where nothing tells of it


def call(path, arguments):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    request = {"arguments": arguments, "cwd": str(Path.cwd()), "env": dict(os.environ), "limits": limits}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b" "], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as answers:
            pid = int(answers.readline())
            signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
            status = int(answers.readline().split()[0])
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(path, modules):
    """Return in a fork only."""
    import importlib

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some libraries print as they are imported
    for module in modules:
        with contextlib.suppress(ImportError):  # not every machine has each
            importlib.import_module(module)
    with contextlib.suppress(ImportError, AttributeError):
        # MLflow looks for every installed package before it saves or loads a model, once in a process.
        importlib.import_module("mlflow.utils.requirements_utils")._init_modules_to_packages_map()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        print("ready", file=answers, flush=True)
        # A pipe ends with the process that started this one, however that ends.
        ends = [0] if stat.S_ISFIFO(os.fstat(0).st_mode) else []
        while True:
            if 0 in select.select([listening, *ends], [], [])[0]:
                os._exit(0)
            connection, _ = listening.accept()
            if os.fork() == 0:
                break
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    fork_for(connection)


def fork_for(connection):
    """In the fork, return; beside it, tell the call how it ends, and end it with its call."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile() as requests:
        request = json.loads(requests.readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(request, descriptors)
        return
    for descriptor in [*descriptors, 0, 1]:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    ended, status, used = wait_for(pid, connection)
    with contextlib.suppress(ProcessLookupError):  # of what it has started, too
        os.killpg(pid, signal.SIGKILL)
    if ended:
        answer = f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime} {used.ru_maxrss}\n"
        connection.sendall(answer.encode())
    else:
        os.waitpid(pid, 0)
    os._exit(0)


def wait_for(pid, connection):
    """Wait until the process or its call has ended, whichever is first."""
    watched, look_again = [connection], SECONDS
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        watched, look_again = [connection, os.pidfd_open(pid)], None
    ended, status, used = 0, 0, None
    while not ended and connection not in select.select(watched, [], [], look_again)[0]:
        ended, status, used = os.wait4(pid, os.WNOHANG)
    return ended, status, used


def become(request, descriptors):
    import importlib

    os.setsid()
    resource.setrlimit(resource.RLIMIT_FSIZE, request["limits"])
    os.chdir(request["cwd"])
    for descriptor, own in enumerate(descriptors):
        os.dup2(own, descriptor)
        os.close(own)
    os.environ.clear()
    os.environ.update(request["env"])
    if "coverage" in sys.modules:  # what runs from here on is for the test that called
        measured = sys.modules["coverage"].Coverage.current()
        measured.switch_context(os.environ.get("PYTEST_CURRENT_TEST", ""))
    sys.argv = request["arguments"][1:]
    more = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:1] = [str(Path(sys.argv[0]).absolute().parent), *more]
    if more:  # as a new Python does
        sys.modules.pop("sitecustomize", None)
        with contextlib.suppress(ImportError):
            importlib.import_module("sitecustomize")


if __name__ == "__main__":
    if sys.argv[1] == "call":
        call(sys.argv[2], sys.argv[3:])
    else:
        import runpy

        serve(sys.argv[2], sys.argv[3:])
        runpy.run_path(sys.argv[0], run_name="__main__")

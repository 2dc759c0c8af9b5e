"""Starts ranks as forks of a process that has loaded their libraries, which takes longer than most trainings.

    python warm_ranks.py torch mlflow

Each line of the standard input is a group of ranks. The answers are a line with their process ids, and a
line with their exit statuses when all have ended.
"""

import importlib
import json
import os
import runpy
import sys


def become_rank(rank):
    os.setsid()
    os.chdir(rank["cwd"])
    for descriptor, path in enumerate([os.devnull, rank["stdout"], rank["stderr"]]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    os.environ.clear()
    os.environ.update(rank["env"])
    sys.argv = rank["arguments"][1:]
    sys.path[0] = rank["cwd"]


def fork_group(ranks):
    """In the server, return the process ids; in a rank, nothing."""
    pids = []
    for rank in ranks:
        pid = os.fork()
        if pid == 0:
            become_rank(rank)
            return None
        pids.append(pid)
    return pids


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some libraries print as they are imported
    for module in sys.argv[1:]:
        importlib.import_module(module)
    while line := sys.stdin.readline():
        pids = fork_group(json.loads(line))
        if pids is None:
            runpy.run_path(sys.argv[0], run_name="__main__")
            return
        print(json.dumps(pids), file=answers, flush=True)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps(statuses), file=answers, flush=True)


if __name__ == "__main__":
    main()

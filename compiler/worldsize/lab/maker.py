"""Makes the namespaces of a step's nodes and passes them to the runner, which keeps them.

This file is a separate program, started by :mod:`worldsize.lab.namespaces`; it imports the
standard library only. Descriptor 0 is a socket to the runner. Each message on it is a JSON object: ``made``
(the switch, or a node's name) with the descriptors of the namespaces, ``done``, or ``fault`` with a text.
With a plan (a file, the first argument) it makes that; without one it reports what this machine can do
(``can``).

A plan holds ``switch`` (commands of ``ip`` for the bridge), ``hosts`` (a file) and ``nodes``: each with
``name``, ``ip`` and ``tc`` (commands in the node), ``port`` and ``port_tc`` (commands in the switch).
``{switch}`` in a command is the id of a process in the switch.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

# linux/sched.h, linux/mount.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19
KINDS = ("net", "uts", "mnt")
SECONDS = 20.0  # for one call of `ip` or `tc`


class MakeError(Exception):
    """A part of the plan cannot be made."""


def main() -> None:
    """Make the plan, or report what could be made."""
    line = socket.socket(fileno=0)
    try:
        if len(sys.argv) > 1:
            with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - starts faster
                make(json.load(file), line)
        else:
            say(line, can=look())
    except MakeError as error:
        say(line, fault=str(error))
    except BrokenPipeError:
        pass  # the runner is gone


def make(plan: dict[str, Any], line: socket.socket) -> None:
    """Make the switch, then each node in its own child process."""
    unshare(CLONE_NEWNET)
    run("ip", plan["switch"])
    with opened("net") as descriptors:
        say(line, descriptors, made="switch")
    for node in plan["nodes"]:
        pid = os.fork()
        if pid == 0:
            live(node, plan["hosts"], line)
        if os.waitpid(pid, 0)[1] != 0:
            return  # it has reported why
        run("ip", node["port"])
        run("tc", node["port_tc"])
    say(line, done=True)


def live(node: dict[str, Any], hosts: str, line: socket.socket) -> None:
    """In a child process: become the node, pass its namespaces to the runner, and exit."""
    status = 1
    try:
        unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
        socket.sethostname(node["name"])
        mount(None, "/", None, MS_REC | MS_SLAVE)  # mounts here are not visible elsewhere
        mount(hosts, "/etc/hosts", None, MS_BIND)
        show_own_devices()
        run("ip", [[word.format(switch=os.getppid()) for word in command] for command in node["ip"]])
        run("tc", node["tc"])
        with opened(*KINDS) as descriptors:
            say(line, descriptors, made=node["name"])
        status = 0
    except MakeError as error:
        say(line, fault=str(error))
    finally:
        os._exit(status)


def show_own_devices() -> None:
    """Mount ``/sys/class/net`` of this namespace, and keep the control groups, which show limits.

    A container may forbid this mount; then a script does not find the devices there.
    """
    groups = "/sys/fs/cgroup"
    groups_descriptor = os.open(groups, os.O_PATH) if os.path.isdir(groups) else None  # noqa: PTH112
    with contextlib.suppress(MakeError):
        mount("sysfs", "/sys", "sysfs", 0)
        if groups_descriptor is not None:
            mount(f"/proc/self/fd/{groups_descriptor}", groups, None, MS_BIND | MS_REC)
    if groups_descriptor is not None:
        os.close(groups_descriptor)


def look() -> dict[str, str | None]:
    """Try each part: None if it can be made here, else the reason why not."""
    reasons: dict[str, str | None] = dict.fromkeys(("nodes", "rate", "delay"))
    try:
        unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
        mount(None, "/", None, MS_REC | MS_SLAVE)
        mount("/etc/hosts", "/etc/hosts", None, MS_BIND)
        run("ip", [["link", "add", "switch", "type", "bridge"]])
        run("ip", [["link", "add", "eth0", "type", "veth", "peer", "name", "node0"]])
    except MakeError as error:
        return {**reasons, "nodes": str(error)}
    bucket = ["tbf", "rate", "1gbit", "burst", "131072b", "latency", "50ms"]
    for part, words in (("rate", bucket), ("delay", ["netem", "delay", "1ms"])):
        try:
            run("tc", [["qdisc", "replace", "dev", "eth0", "root", *words]])
        except MakeError as error:  # noqa: PERF203 - one for each part
            reasons[part] = str(error)
    return reasons


def run(program: str, commands: Sequence[Sequence[str]]) -> None:
    """Run several commands of ``ip`` or ``tc``.

    Raises:
        MakeError: One of them failed, or the program is not installed.
    """
    if not commands:
        return
    try:
        done = subprocess.run(
            [program, "-batch", "-"],
            input="".join(" ".join(command) + "\n" for command in commands),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MakeError(
            f"`{program}` {getattr(error, 'strerror', None) or 'does not answer'}".lower()
        ) from None
    if done.returncode != 0:
        first = done.stderr.strip().partition("\n")[0].rstrip() or "nothing"
        complaint = first.removeprefix("RTNETLINK answers: ").removeprefix("Error: ")
        raise MakeError(f"`{program}` says: {complaint}")


def unshare(kinds: int) -> None:
    """Move to new namespaces of these kinds."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kinds):
        raise MakeError(f"a namespace cannot be made: {os.strerror(ctypes.get_errno()).lower()}")


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """Mount something in this namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), None):
        raise MakeError(f"`{target}` cannot be mounted: {os.strerror(ctypes.get_errno()).lower()}")


@contextlib.contextmanager
def opened(*kinds: str) -> Iterator[list[int]]:
    """Descriptors of this process's namespaces."""
    descriptors = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    try:
        yield descriptors
    finally:
        for groups_descriptor in descriptors:
            os.close(groups_descriptor)


def say(line: socket.socket, descriptors: Sequence[int] = (), **message: Any) -> None:
    """Send a message to the runner."""
    socket.send_fds(line, [json.dumps(message).encode()], descriptors)


if __name__ == "__main__":
    main()

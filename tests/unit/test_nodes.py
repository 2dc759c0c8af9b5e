"""Machines emulated on one: names, commands, links and faults, all decided without making anything."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from worldsize.azureml.model import Component
from worldsize.lab import namespaces
from worldsize.lab.emulation import read_emulation
from worldsize.lab.faults import NodeFault, NodeFaultKind, assign_step, describe_fault, parse_fault
from worldsize.lab.namespaces import (
    MAX_NODES,
    MIN_BITS_PER_S,
    NETWORK,
    UNSHAPED,
    Link,
    OptionError,
    fit_link,
    hosts_file,
    make_nodes,
    make_plan,
    parse_link,
    shaping_commands,
)
from worldsize.running.launch.launchers import count_ports, plan_processes
from worldsize.running.launch.machine import read_networks
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Call, walk_processes
from worldsize.running.model.task import Task


def task(name: str, instances: int, per_instance: int = 1, launcher: str = "pytorch") -> Task:
    return Task(
        name,
        Component(None, "command", None, None, {}, {}),
        Path(),
        launcher=launcher,
        instance_count=instances,
        process_count_per_instance=per_instance,
    )


@given(st.integers(1, MAX_NODES))
def test_nodes_have_names_and_addresses_of_their_own(count: int) -> None:
    made = make_nodes(count)
    assert [node.name for node in made] == [f"node{number}" for number in range(count)]
    assert all(len(node.name) <= 15 for node in made)  # what the kernel allows for a device
    addresses = {ipaddress.ip_address(node.address) for node in made}
    assert len(addresses) == count
    network = NETWORK
    assert all(each in network and each.is_private for each in addresses)
    assert not {network.network_address, network.broadcast_address} & addresses
    lines = hosts_file(made).splitlines()
    assert lines[0] == "127.0.0.1\tlocalhost"
    assert lines[2:] == [f"{node.address}\t{node.name}" for node in made]


@pytest.mark.parametrize("count", [0, MAX_NODES + 1])
def test_a_bridge_has_so_many_ports(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        make_nodes(count)


def test_what_makes_the_network() -> None:
    plan = make_plan(make_nodes(2), Path("hosts"), Link(1e9, 0.002, 0.001))
    assert [" ".join(command) for command in plan["switch"]] == [
        "link add switch type bridge",
        "link set dev switch up",
    ]
    second = plan["nodes"][1]
    assert [" ".join(command) for command in second["ip"]] == [
        "link set dev lo up",
        "link add eth0 type veth peer name node1 netns {switch}",
        "address add 10.213.0.2/16 dev eth0",
        "link set dev eth0 up",
    ]
    assert [" ".join(command) for command in second["port"]] == ["link set dev node1 master switch up"]
    # Delay and loss where a packet leaves its sender, the rate in both directions.
    assert [" ".join(command) for command in second["tc"]] == [
        "qdisc add dev eth0 root handle 1: netem limit 4333 delay 2000us loss 0.1%",
        "qdisc add dev eth0 parent 1:1 handle 10: tbf rate 1000000000bit burst 131072b latency 50ms",
    ]
    assert [" ".join(command) for command in second["port_tc"]] == [
        "qdisc add dev node1 root tbf rate 1000000000bit burst 131072b latency 50ms"
    ]


def test_links_without_limit_are_left_alone() -> None:
    plan = make_plan(make_nodes(2), Path("hosts"), UNSHAPED)
    assert all(not node["tc"] and not node["port_tc"] for node in plan["nodes"])


@pytest.mark.parametrize(
    ("text", "link", "said"),
    [
        ("1gbit", Link(1e9), "1 Gbit/s"),
        ("25gbit,50us", Link(25e9, 50e-6), "25 Gbit/s, 50 µs delay"),
        ("2.5Gbit/s, 10ms, 0.5%", Link(2.5e9, 0.01, 0.005), "2.5 Gbit/s, 10 ms delay, 0.5 % loss"),
        ("1%,100mbit", Link(1e8, 0.0, 0.01), "100 Mbit/s, 1 % loss"),
        ("3ms", Link(None, 0.003), "3 ms delay"),
        ("64kbit,1s", Link(64e3, 1.0), "64 kbit/s, 1 s delay"),
        ("1.6tbit", Link(1.6e12), "1,600 Gbit/s"),
        ("none", UNSHAPED, "no limit"),
    ],
)
def test_a_link_is_read_and_said(text: str, link: Link, said: str) -> None:
    found = parse_link(text)
    assert found.bits_per_s == link.bits_per_s
    assert (found.delay_s, found.loss) == pytest.approx((link.delay_s, link.loss))
    assert str(found) == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "`--link 5`: `5` is not a rate, delay or loss"),
        ("", "`--link ` has an empty part, which is not a rate, delay or loss"),
        ("1gbit,", "`--link 1gbit,` has an empty part, which is not a rate, delay or loss"),
        ("1gbit,2gbit", "`--link 1gbit,2gbit` gives its rate twice"),
        ("1gb", "`--link 1gb`: `1gb` is not a rate, delay or loss"),
        ("-1gbit", "`--link -1gbit`: `-1gbit` is not a rate, delay or loss"),
        ("0gbit", "`--link 0gbit`: a rate of `0gbit` moves nothing"),
        ("2000s", "`--link 2000s`: a delay of `2000s` is too long"),
        ("100%", "`--link 100%` loses every packet"),
    ],
)
def test_what_is_no_link_is_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_link(text)
    assert str(caught.value) == message
    assert caught.value.help


@given(st.text(max_size=30))
def test_any_text_is_a_link_or_refused(text: str) -> None:
    try:
        link = parse_link(text)
    except OptionError:
        return
    assert link.bits_per_s is None or link.bits_per_s >= MIN_BITS_PER_S
    assert 0 <= link.loss < 1
    for command in shaping_commands("eth0", link):
        assert all(word and word == word.strip() for word in command)


NO_NETEM = "this kernel has no `netem`, which delays and loses packets"
NO_TBF = "this kernel has no `tbf`, which limits rates"
INFINIBAND = "1,600 Gbit/s (InfiniBand of `Standard_ND96asr_v4`)"
TOO_MUCH = "1,600 Gbit/s is more than this machine's processor moves"


@pytest.mark.parametrize(
    ("asked", "size", "able", "link", "said"),
    [
        (None, None, (True, True), Link(), "links that are not limited"),
        (None, "Standard_DS3_v2", (1, 1), Link(3e9), "links of 3 Gbit/s (Ethernet of `Standard_DS3_v2`)"),
        (
            None,
            "standard_nd96asr_v4",
            (1, 1),
            Link(10e9),
            f"links of 10 Gbit/s instead of {INFINIBAND}: {TOO_MUCH}",
        ),
        ("1gbit,1ms", "Standard_DS3_v2", (1, 1), Link(1e9, 1e-3), "links of 1 Gbit/s, 1 ms delay (`--link`)"),
        (
            "1gbit,1ms",
            None,
            (1, 0),
            Link(1e9),
            f"links of 1 Gbit/s instead of 1 Gbit/s, 1 ms delay (`--link`): {NO_NETEM}",
        ),
        (
            "1gbit",
            None,
            (0, 1),
            Link(),
            f"links that are not limited instead of 1 Gbit/s (`--link`): {NO_TBF}",
        ),
        ("none", "Standard_DS3_v2", (1, 1), Link(), "links that are not limited (`--link`)"),
    ],
)
def test_a_link_is_fitted_to_the_kernel_and_the_difference_said(
    asked: str | None, size: str | None, able: tuple[int, int], link: Link, said: str
) -> None:
    wanted = None if asked is None else parse_link(asked)
    found = fit_link(
        wanted,
        read_networks({"train": size} if size else {}).get("train"),
        can_shape=bool(able[0]),
        can_delay=bool(able[1]),
    )
    assert found == (link, said)


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("kill", "node1@step:200", NodeFault("kill", 1, None, 200, None, None, "node1@step:200")),
        ("kill", "node0@30s", NodeFault("kill", 0, None, None, 30.0, None, "node0@30s")),
        (
            "kill",
            "train:node1@250ms",
            NodeFault("kill", 1, "train", None, 0.25, None, "train:node1@250ms"),
        ),
        (
            "drop-link",
            "outer.train:node12@1.5m for 10s",
            NodeFault("drop-link", 12, "outer.train", None, 90.0, 10.0, "outer.train:node12@1.5m for 10s"),
        ),
    ],
)
def test_a_fault_is_read(kind: NodeFaultKind, text: str, fault: NodeFault) -> None:
    assert parse_fault(kind, text) == fault


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("kill", "node1", "`--kill node1` does not name a node and a time"),
        ("kill", "rank1@30s", "`--kill rank1@30s` does not name a node and a time"),
        ("kill", "node1@soon", "`--kill node1@soon`: `soon` is not a time"),
        ("kill", "node1@step:", "`--kill node1@step:`: `step:` is not a time"),
        ("kill", "node1@3s for 2s", "`--kill node1@3s for 2s`: a killed node does not start again"),
        ("drop-link", "node1@3s for ever", "`--drop-link node1@3s for ever`: `ever` is not a length of time"),
        ("drop-link", "node1@3s for 0s", "`--drop-link node1@3s for 0s`: `0s` is not a length of time"),
    ],
)
def test_what_is_no_fault_is_refused(kind: NodeFaultKind, text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_fault(kind, text)
    assert str(caught.value) == message
    assert caught.value.help


@given(st.text(max_size=40))
def test_any_text_is_a_fault_or_refused(text: str) -> None:
    try:
        fault = parse_fault("drop-link", text)
    except OptionError:
        return
    assert (fault.at_step is None) != (fault.at_seconds is None)


SEVERAL = {"prepare": task("prepare", 1, launcher="none"), "a": task("a", 2, 2), "b": task("b", 1, 4)}


@pytest.mark.parametrize(
    ("text", "message", "help_"),
    [
        (
            "node1@3s",
            "`--kill node1@3s`: steps `a`, `b` have nodes",
            "name one, such as `--kill a:node1@3s`",
        ),
        ("c:node1@3s", "`--kill c:node1@3s`: there is no step `c`", "those with nodes are `a`, `b`"),
        (
            "prepare:node0@3s",
            "`--kill prepare:node0@3s`: step `prepare` has no `distribution`",
            "those with nodes are `a`, `b`",
        ),
        (
            "a:node2@3s",
            "`--kill a:node2@3s`: step `a` runs on 2 nodes, `node0` to `node1`, here",
            "nodes count from 0; `instance_count` says how many there are",
        ),
        (
            "b:node1@3s",
            "`--kill b:node1@3s`: step `b` runs on `node0` only here",
            "nodes count from 0; `instance_count` says how many there are",
        ),
    ],
)
def test_a_fault_needs_a_node_that_is_there(text: str, message: str, help_: str) -> None:
    with pytest.raises(OptionError) as caught:
        assign_step(parse_fault("kill", text), SEVERAL)
    assert (str(caught.value), caught.value.help) == (message, help_)


def test_a_fault_finds_the_only_step_that_can_be_meant() -> None:
    one = {"prepare": SEVERAL["prepare"], "train": task("train", 2)}
    assert assign_step(parse_fault("kill", "node1@3s"), one).step == "train"
    with pytest.raises(OptionError, match="no step has nodes"):
        assign_step(parse_fault("kill", "node1@3s"), {"prepare": SEVERAL["prepare"]})


def test_when_a_fault_is_due() -> None:
    by_step, by_time = parse_fault("kill", "node1@step:200"), parse_fault("kill", "node1@30s")
    assert not by_step.is_due(1e6, None)
    assert not by_step.is_due(1e6, 199)
    assert by_step.is_due(0.0, 203)  # progress is told now and then
    assert not by_time.is_due(29.9, 10**6)
    assert by_time.is_due(30.0, None)


@pytest.mark.parametrize(
    ("call", "node", "said"),
    [
        (
            Call(step="t", launcher="pytorch", command="x", instance_count=2, process_count_per_instance=2),
            1,
            "node1 (ranks 2 and 3)",
        ),
        (
            Call(step="t", launcher="pytorch", command="x", instance_count=3, process_count_per_instance=1),
            0,
            "node0 (rank 0)",
        ),
        (
            Call(step="t", launcher="mpi", command="x", instance_count=2, process_count_per_instance=3),
            1,
            "node1 (ranks 3, 4 and 5)",
        ),
        (
            Call(step="t", launcher="pytorch", command="x", instance_count=2, process_count_per_instance=8),
            1,
            "node1 (8 processes)",
        ),
        (
            Call(
                step="t",
                launcher="tensorflow",
                command="x",
                instance_count=2,
                worker_count=2,
                parameter_server_count=1,
            ),
            0,
            "node0 (worker 0 and ps 0)",
        ),
    ],
)
def test_a_fault_names_the_node_and_what_ran_there(call: Call, node: int, said: str) -> None:
    plan = plan_processes(call, ["1"] * count_ports(call))
    ranks = [each for each in walk_processes(plan) if not each.members]
    kill = parse_fault("kill", f"node{node}@step:200")
    assert describe_fault(kill, ranks) == f"{said} was killed by `--kill node{node}@step:200`"
    cut = parse_fault("drop-link", f"node{node}@3s")
    assert describe_fault(cut, ranks) == f"the link of {said} was cut by `--drop-link node{node}@3s`"


def test_options_that_need_nodes_say_so() -> None:
    asked = RunOptions(link="fast", kill=("node9@3s",), drop_link=("node1@3s",))
    found, problems = read_emulation(asked, {"train": task("train", 2)}, {})
    assert [problem.message for problem in problems] == [
        "`--drop-link` cuts a node's link, and instances that are only processes have none",
        "`--kill node9@3s`: step `train` runs on 2 nodes, `node0` to `node1`, here",
        "`--link` shapes links between nodes, and instances that are only processes have none",
        "`--link fast`: `fast` is not a rate, delay or loss",
    ]
    assert found.place is contextlib.nullcontext
    assert all(problem.help and len(problem.message) <= 200 for problem in problems)


def test_one_instance_runs_as_ever_and_nothing_is_asked_of_the_machine() -> None:
    asked = RunOptions(nodes="namespaces", link="1gbit")
    found, problems = read_emulation(asked, {"train": task("train", 1, 4)}, {})
    assert problems == []
    assert found.place is contextlib.nullcontext
    assert found.notices == ("`--nodes namespaces` has no effect: no step has several instances here",)


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = {"train": task("train", 2)}
    asked = RunOptions(nodes="namespaces")
    monkeypatch.setattr(namespaces.sys, "platform", "darwin")
    (problem,) = read_emulation(asked, spread, {})[1]
    assert problem.message == "`--nodes namespaces` needs Linux"
    monkeypatch.setattr(namespaces.sys, "platform", "linux")
    monkeypatch.setenv("PATH", "")
    (problem,) = read_emulation(asked, spread, {})[1]
    assert problem.message == "`--nodes namespaces` needs `ip`, which is not installed"
    assert "apt-get install iproute2" in problem.help
    monkeypatch.setattr(namespaces.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    (problem,) = read_emulation(asked, spread, {})[1]
    assert problem.message == "`--nodes namespaces` needs root"


def test_launchers_use_addresses_and_prefixes() -> None:
    hosts, prefixes = ("10.0.0.1", "10.0.0.2"), (("enter", "node0"), ("enter", "node1"))
    two_by_two = Call(
        step="t",
        launcher="pytorch",
        command="x",
        instance_count=2,
        process_count_per_instance=2,
        hosts=hosts,
        prefixes=prefixes,
    )
    torch = plan_processes(two_by_two, ["7"])
    assert {process.env["MASTER_ADDR"] for process in torch} == {"10.0.0.1"}
    assert [process.argv[:2] for process in torch] == [prefixes[0]] * 2 + [prefixes[1]] * 2
    call = Call(
        step="t",
        launcher="tensorflow",
        command="x",
        instance_count=2,
        worker_count=4,
        hosts=hosts,
        prefixes=prefixes,
    )
    workers = plan_processes(call, ["1", "2", "3", "4"])
    assert '["10.0.0.1:1", "10.0.0.2:2", "10.0.0.1:3", "10.0.0.2:4"]' in workers[0].env["TF_CONFIG"]
    assert [process.argv[1] for process in workers] == ["node0", "node1", "node0", "node1"]
    (mpirun,) = plan_processes(replace(two_by_two, launcher="mpi"), ["7"])
    line = " ".join(mpirun.argv)
    assert line.startswith("enter node0 mpirun ")
    assert " --map-by ppr:2:node --host 10.0.0.1:2,10.0.0.2:2 -np 4 " in line
    assert mpirun.env["OMPI_MCA_btl"] == "^openib,uct,ofi"
    assert mpirun.env["AZ_BATCH_MASTER_NODE"] == "10.0.0.1:7"

"""The arithmetic of degrees, tensor groups that leave an instance, and the links they would use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worldsize.facts import vm_sizes
from worldsize.planning import degrees as arithmetic


def test_the_arithmetic_of_degrees() -> None:
    assert [arithmetic.divisors(number) for number in (1, 4, 12)] == [[1], [1, 2, 4], [1, 2, 3, 4, 6, 12]]
    assert arithmetic.largest_common_divisor(8, 12, 8) == 4
    assert arithmetic.bubble_share(4, 1) == 0.75
    assert arithmetic.bubble_share(1, 1) == 0
    assert arithmetic.shrink_degrees(4, 2, 8) == (4, 2)
    assert arithmetic.shrink_degrees(4, 2, 5) == (2, 2)
    assert arithmetic.shrink_degrees(2, 3, 3) == (1, 3)
    assert arithmetic.shrink_degrees(6, 1, 5) == (3, 1)
    assert arithmetic.shrink_degrees(3, 1, 2) == (1, 1)
    assert arithmetic.shrink_degrees(1, 1, 2) == (1, 1)


@given(st.integers(1, 64))
def test_enough_micro_batches_are_just_enough(stages: int) -> None:
    enough = arithmetic.count_micro_batches(stages)
    assert arithmetic.bubble_share(stages, enough) < arithmetic.TOLERABLE_BUBBLE
    assert enough == 1 or arithmetic.bubble_share(stages, enough - 1) >= arithmetic.TOLERABLE_BUBBLE - 1e-9


@st.composite
def tensor_groups(draw: st.DrawFn) -> tuple[int, int, int]:
    """A degree that divides the world size, processes an instance, and instances."""
    processes, instances = draw(st.integers(1, 16)), draw(st.integers(1, 8))
    return draw(st.sampled_from(arithmetic.divisors(processes * instances))), processes, instances


@given(tensor_groups())
def test_a_tensor_group_crosses_exactly_where_neighbours_lie_apart(groups_of: tuple[int, int, int]) -> None:
    tensor, processes, instances = groups_of
    groups = [range(first, first + tensor) for first in range(0, processes * instances, tensor)]
    apart = any(len({rank // processes for rank in group}) > 1 for group in groups)
    assert arithmetic.crosses_instances(tensor, processes, instances) == apart


def test_links_of_the_catalogue() -> None:
    infiniband, ethernet = (vm_sizes.lookup(f"Standard_{name}") for name in ("ND96asr_v4", "NC96ads_A100_v4"))
    assert infiniband is not None
    assert ethernet is not None
    assert vm_sizes.intra_node_link(infiniband) == vm_sizes.Link("NVLink 3", 300)
    assert vm_sizes.inter_node_link(infiniband) == vm_sizes.Link("InfiniBand", 25)
    assert vm_sizes.intra_node_link(ethernet) == vm_sizes.Link("PCIe 4.0", 32)
    assert vm_sizes.inter_node_link(ethernet) == vm_sizes.Link("Ethernet", 2.5)
    rack = vm_sizes.lookup("Standard_ND128isr_NDR_GB200_v6")
    assert rack is not None
    assert vm_sizes.link_spans_instances(rack)
    for name in vm_sizes.names():
        size = vm_sizes.lookup(name)
        assert size is not None
        inside, between = vm_sizes.intra_node_link(size), vm_sizes.inter_node_link(size)
        if inside is not None and between is not None and size.devices > 1:
            assert inside.gigabytes_per_s > between.gigabytes_per_s, name


@given(number=st.integers(1, 10_000), start=st.integers(1, 200), step=st.sampled_from([1, -1]))
def test_the_divisor_next_to_a_number(number: int, start: int, step: int) -> None:
    found = arithmetic.divisor_near(number, start, step)
    beyond = [
        divisor
        for divisor in arithmetic.divisors(number)
        if divisor > 1 and (divisor >= start if step > 0 else divisor <= start)
    ]
    if step > 0 and start > 1:
        assert found == min(beyond, default=None)
    elif step < 0 and start <= number:
        assert found == max(beyond, default=None)

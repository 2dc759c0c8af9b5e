"""The time of a collective over the links inside an instance and the network between instances."""

from __future__ import annotations

import math

from msgspec import Struct

from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Cluster


class Links(Struct, frozen=True):
    """Bytes a second of one rank's buffer that a ring reaches."""

    inside: float  # an instance
    everywhere: float

    def slow_down(self, factor: float) -> Links:
        """The rates at which exchanges take ``factor`` times as long."""
        return Links(self.inside / factor, self.everywhere / factor)


def find_links(cluster: Cluster, constants: Constants) -> Links | None:
    """The rates of rings inside an instance and over all instances; None where a link is unknown.

    A ring over instances enters each of them once, so that its rate is that of an instance's whole network,
    or of the links inside where these are slower (NCCL makes a ring for each adapter).
    """
    inside = math.inf
    if cluster.gpus_per_instance > 1:
        if cluster.link_bytes_per_s is None:
            return None
        inside = cluster.link_bytes_per_s * constants.link_share
    if cluster.instance_count == 1:
        return Links(inside, inside)
    if cluster.network_bytes_per_s is None or cluster.rdma is None:
        return None
    share = constants.rdma_share if cluster.rdma else constants.tcp_share
    return Links(inside, min(inside, cluster.network_bytes_per_s * share))


def time_ring(size: float, ranks: float, bytes_per_s: float) -> float:
    """Seconds of an all-gather or a reduce-scatter of ``size`` bytes: (n − 1)/n of them pass each link.

    Source: Thakur et al. 2005, "Optimization of collective communication operations in MPICH", section 4.
    """
    return size * (ranks - 1) / ranks / bytes_per_s if ranks > 1 else 0.0


def count_hops(cluster: Cluster) -> float:
    """Doublings of instances: the steps of a tree over them."""
    return math.log2(cluster.instance_count)


def expected_straggler(count: int) -> float:
    """Standard deviations by which the slowest of ``count`` instances is behind the mean: √(2 ln n).

    The expected maximum of n normal numbers is at most that (Cramér 1946, section 28.6).
    """
    return math.sqrt(2 * math.log(count))

"""``torch.distributed``: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

import json
import os
import socket
from collections import defaultdict
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from wsshards.errors import UserError, describe_error, print_warning

T = TypeVar("T")


class TorchDistributed:
    """Membership of the default process group, which strategies build on too."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store, backend = _loopback_store(rank, ranks), "gloo"
        if device.type == "cuda":
            store = store or next(rendezvous("env://", rank, ranks))[0]
            backend = _choose_backend(store, rank, ranks, device)
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)

    def sum(self, values: torch.Tensor) -> None:
        """Add a tensor up over ranks, in place."""
        dist.all_reduce(values)

    def broadcast(self, value: T) -> T:
        """Return rank 0's value."""
        box = [value]
        dist.broadcast_object_list(box, device=self._device)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank."""
        values: list[T] = [value] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values

    def close(self) -> None:
        """Leave the group as it is: it ends with the process, see :func:`wsshards.errors.run_main`.

        In torch 2.13 the destructor of a gloo group waits for its own thread with Python's lock held, and
        that thread may wait for the lock to let go of a tensor. So the group must neither be destroyed nor
        lose its last reference, which the registry of torch.distributed keeps.
        """


def _loopback_store(rank: int, ranks: int) -> TCPStore | None:
    """The store of ranks that meet on the loopback address: PyTorch's own would listen on every address.

    Returns:
        None where the ranks meet elsewhere, or through the store of ``torchrun``.

    Raises:
        UserError: another process listens at the port.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if address not in ("127.0.0.1", "localhost") or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    return TCPStore(
        "127.0.0.1",
        port,
        ranks,
        is_master=rank == 0,
        timeout=dist.default_pg_timeout,
        master_listen_fd=_bind_socket(port) if rank == 0 else None,
    )


def _choose_backend(store: Store, rank: int, ranks: int, device: torch.device) -> str:
    """NCCL, with gloo for what is offloaded to the host; gloo alone where ranks share a GPU."""
    gpu = str(torch.cuda.get_device_properties(device).uuid)
    shared = find_shared_gpu(store, rank, ranks, gpu)
    if not shared:
        return "cpu:gloo,cuda:nccl"
    if rank == 0:
        sharing = " and ".join(map(str, shared[:2])) + (f" and {len(shared) - 2} more" if shared[2:] else "")
        print_warning(
            f"ranks {sharing} share one GPU, which NCCL refuses: all ranks exchange by gloo, which"
            " is slower; start one process for each GPU"
        )
    return "gloo"


def find_shared_gpu(store: Store, rank: int, ranks: int, gpu: str) -> list[int]:
    """The ranks that have one GPU together, by its UUID; none if each has its own. All ranks ask at once."""
    store.set(f"gpu of rank {rank}", gpu)
    if rank == 0:
        by_gpu = defaultdict(list)
        for other in range(ranks):
            by_gpu[store.get(f"gpu of rank {other}")].append(other)
        most = max(by_gpu.values(), key=len)
        store.set("ranks on one gpu", json.dumps(most if len(most) > 1 else []))
    shared: list[int] = json.loads(store.get("ranks on one gpu"))
    return shared


def _bind_socket(port: int) -> int:
    """The descriptor of a socket at a port of the loopback address, which the store will own."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(f"cannot listen at port {port} (MASTER_PORT): {describe_error(error)}") from error
        return server.detach()


def connect(device: torch.device) -> TorchDistributed:
    """Join the process group that MASTER_ADDR and RANK describe."""
    return TorchDistributed(device)

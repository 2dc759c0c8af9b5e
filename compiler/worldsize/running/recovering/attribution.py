"""Which process failed first, when one takes the others with it.

A process that dies closes its connections, and whoever waits at the other end fails too: with gloo or NCCL
at once, so that the guard may hear of all in any order. Three things tell the cause from what follows: what
ended of its own accord comes before what was asked to end; a log that ends in a lost connection belongs to
one that followed; and among those that remain, the first that was seen to end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worldsize.running.results import ending
from worldsize.running.starting.processes import Process
from worldsize.running.supervising.supervise import Ended
from wsshards.errors import RESUME_EXIT_STATUS
from wstrain.health.watchdog import HANG_EXIT_STATUS

TAIL_LINES = 40
# What gloo, NCCL, the stores of torch, MPI, Horovod, gRPC and our own components write of a lost peer.
_PEER_GONE = re.compile(
    r"connection (?:was )?(?:likely )?(?:closed|reset|refused)|closed by (?:the )?(?:peer|remote)"
    r"|broken pipe|socket closed|socket timeout|end of file|timed out (?:waiting|after)"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|remote process exited"
    r"|watchdog caught collective operation timeout|DistNetworkError|DistStoreError"
    r"|(?:send|recv)\w{0,30} failed|got 0 bytes|horovod has been shut down|hvd.{0,200}aborted"
    r"|UnavailableError|CancelledError|collective ops is aborted|has gone, so this (?:one|process) stops",
    re.IGNORECASE,
)
_ERROR = re.compile(r"^error: (.+)$")
_RANK = re.compile(r"^ranks? (\d+)\b.* did not arrive")

Tail = Callable[[Process], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who failed, and with how many in tow.

    Attributes:
        cause: the process that failed first.
        followers: those that failed because of it.
        message: what happened, in words.
    """

    cause: Ended
    followers: tuple[Process, ...]
    message: str


def verdict(ended: Sequence[Ended], tail: Tail, ranks: Sequence[Process]) -> Verdict | None:
    """Name the cause.

    Args:
        ended: what has ended, in the order in which it was seen.
        tail: the last lines that a process wrote.
        ranks: the processes that run the command.

    Returns:
        None where nothing has failed.
    """
    failed = [each for each in ended if each.status != 0 and not (each.told and each.process.serves)]
    if not failed:
        return None
    tails = {id(each): list(tail(each.process)) for each in failed}
    cause = min(failed, key=lambda each: _lateness(each, tails[id(each)]))  # the first of the least
    if cause.status == HANG_EXIT_STATUS:
        return _hang(cause, failed, tails, ranks)
    followers = [
        each.process
        for each in failed
        if each is not cause and not each.process.members and _followed(tails[id(each)])
    ]
    return Verdict(cause, tuple(followers), _words(cause))


def said(lines: Sequence[str]) -> str | None:
    """The last line ``error: …`` of a log, without that word."""
    found = [matched[1] for line in lines if (matched := _ERROR.match(line))]
    return found[-1] if found else None


def signature(message: str, lines: Sequence[str]) -> str:
    """What makes two failures the same: their words without what changes from try to try."""
    last = said(lines) or (lines[-1] if lines else "")
    return re.sub(r"0x[0-9a-f]+|\d+", "#", f"{message} {last}")


def others_failed(followers: Sequence[Process]) -> str:
    """``3 other ranks failed because of it``."""
    kind = followers[0].title.split()[0]
    return f"{len(followers)} other {kind}{'s' * (len(followers) > 1)} failed because of it"


def _words(cause: Ended) -> str:
    if cause.status == RESUME_EXIT_STATUS:
        return f"{cause.process.title} was asked to stop, and saved its state"
    return ending(cause.process.title, cause.status)


def _lateness(each: Ended, lines: Sequence[str]) -> int:
    if each.told:
        return 3
    if each.process.members:
        return 2  # mpirun fails because of a rank
    return 1 if _followed(lines) else 0


def _followed(lines: Sequence[str]) -> bool:
    """Whether a log ends in a lost connection."""
    return any(_PEER_GONE.search(line) for line in lines[-TAIL_LINES:])


def _hang(
    first: Ended, failed: Sequence[Ended], tails: dict[int, list[str]], ranks: Sequence[Process]
) -> Verdict:
    """Ranks that found a hang say who did not arrive; that one is the cause if it is known to have ended."""
    words = next((text for each in failed if (text := said(tails[id(each)]))), None)
    message = words or ending(first.process.title, first.status)
    matched = _RANK.match(message)
    named = next((each for each in ranks if matched and each.rank == int(matched[1])), None)
    cause = next((each for each in failed if each.process is named), first)
    return Verdict(Ended(cause.process, HANG_EXIT_STATUS, told=cause.told), (), message)

"""When a step that failed is started again, and after how long.

A step goes on from its last checkpoint, so starting it again helps against what passes: a machine that was
taken away, a rank that was killed, a network that was gone. It does not help against what will happen again:
an error of the inputs, or the same error at the same training step. The pause doubles from try to try, with
some of it by chance, so that many steps do not come back at one moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from worldsize.running.engine.attempt import Attempt
from worldsize.running.engine.failures import failure_signature
from worldsize.running.model.results import Failure
from worldsize.running.model.task import keeps_checkpoints
from wsshards.errors import RESUME_EXIT_STATUS

INPUT_FAULT = 2  # the exit status of a script whose inputs are wrong, ours and argparse's
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
JITTER = 0.25  # of a pause, up or down
MOST_RESUMES = 20  # of a step that was asked to stop and has saved; these do not count as failures


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """How one attempt ended."""

    # the exit status of the process that failed first, a signal as a negative number; None where no process
    # is to blame
    status: int | None
    reached: int | None  # training steps done, as far as it is known
    signature: str  # what makes two failures the same

    @property
    def resumes(self) -> bool:
        """Whether it saved its state and asks to be started again."""
        return self.status == RESUME_EXIT_STATUS


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """What to do after an attempt: start again after so many seconds, or stop for a reason."""

    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often, and how soon."""

    most: int = 0  # failures after which a step is started again
    seed: str = ""  # of the pauses
    first: float = FIRST_SECONDS  # seconds before the first restart
    longest: float = LONGEST_SECONDS  # seconds of any pause

    def decide(self, tries: Sequence[EndedAttempt]) -> RestartDecision:
        """Whether there is another attempt after these, the last of which has just failed."""
        last = tries[-1]
        failures = [each for each in tries if not each.resumes]
        if last.resumes:
            if len(tries) - len(failures) > MOST_RESUMES:
                return RestartDecision(None, f"it was asked to stop more than {MOST_RESUMES} times")
            return RestartDecision(self._pause(1, len(tries)))
        hopeless = self._hopeless(failures)
        return RestartDecision(
            self._pause(len(failures), len(tries)) if hopeless is None else None, hopeless or ""
        )

    def _hopeless(self, failures: Sequence[EndedAttempt]) -> str | None:
        """Why there is no further attempt after these failures; empty where none was asked for."""
        last = failures[-1]
        if not self.most:
            return ""
        if last.status == INPUT_FAULT:
            return "its inputs are wrong, and another attempt would not change that"
        if len(failures) > self.most:
            return f"it has failed {len(failures)} times"
        if len(failures) > 1 and _is_stuck(failures[-2], last):
            where = "the start" if not last.reached else f"training step {last.reached}"
            return f"the same error twice at {where}: another try would end there, too"
        return None

    def _pause(self, failures: int, tries: int) -> float:
        draw = random.Random(f"{self.seed}/{tries}").uniform(-JITTER, JITTER)  # noqa: S311 - no secret
        return min(self.longest, self.first * 2.0 ** (failures - 1)) * (1 + draw)


@dataclass(slots=True)
class Restarting:
    """Starts steps again that keep checkpoints."""

    policy: RestartPolicy  # how often, and how soon; each step draws its own pauses
    most: Mapping[str, int] = field(default_factory=dict)  # how often, for the steps that say it themselves
    say: Callable[[str], None] = lambda _: None  # tells the user why there is no other try
    tries: dict[str, list[EndedAttempt]] = field(default_factory=dict)

    def after(self, attempt: Attempt, failure: Failure) -> float | None:
        """Seconds to wait before the next try; None for no other."""
        task = attempt.task
        if not keeps_checkpoints(task):
            return None
        tries = self.tries.setdefault(task.name, [])
        tries.append(
            EndedAttempt(
                failure.status, attempt.reached, failure_signature(failure.message, failure.last_lines)
            )
        )
        max_restarts = self.most.get(task.name, self.policy.most)
        policy = replace(self.policy, most=max_restarts, seed=f"{self.policy.seed}/{task.name}")
        decision = policy.decide(tries)
        if decision.seconds is None and decision.reason:
            self.say(f"{task.name}: not started again: {decision.reason}")
        return decision.seconds


def _is_stuck(before: EndedAttempt, last: EndedAttempt) -> bool:
    """Whether a step would fail for ever: with the same words at the same place, and not killed by others."""
    killed = last.status is not None and last.status in (-9, -15)
    return not killed and last.signature == before.signature and last.reached == before.reached

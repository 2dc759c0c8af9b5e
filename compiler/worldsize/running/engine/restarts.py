"""Decides whether a failed step is restarted, and after how long.

A restarted step continues from its last checkpoint. This helps against temporary faults: a preempted machine,
a killed rank, a lost network. It does not help against faults that recur: wrong inputs, or the same error at
the same training step. The pause doubles with each attempt, with a random part, so that many steps do not
restart at the same moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.running.engine.attempt import Attempt
from worldsize.running.engine.failures import failure_signature
from worldsize.running.model.results import Failure
from worldsize.running.model.task import keeps_checkpoints
from wsshards.errors import RESUME_EXIT_STATUS

INPUT_FAULT = 2  # the exit status of our scripts, and of argparse, for wrong inputs
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0  # before the first restart; of any pause
JITTER = 0.25  # of a pause, up or down
MAX_RESUMES = 20  # of a step that saved its state on request; these are not failures


class EndedAttempt(Struct, frozen=True):
    """How one attempt ended."""

    # of the process that failed first, a signal as a negative number; None if no process is to blame
    status: int | None
    training_step: int | None  # training steps done, as far as it is known
    signature: str  # what makes two failures the same

    @property
    def resumes(self) -> bool:
        """Whether it saved its state and asks to be restarted."""
        return self.status == RESUME_EXIT_STATUS


class RestartDecision(Struct, frozen=True):
    """What to do after an attempt: restart after some seconds, or stop for a reason."""

    seconds: float | None
    reason: str = ""


class RestartPolicy(Struct, frozen=True):
    """How often, and how soon."""

    max_restarts: int = 0  # failures after which a step is started again
    seed: str = ""  # of the pauses

    def decide(self, attempts: Sequence[EndedAttempt]) -> RestartDecision:
        """Decide whether there is another attempt after these, the last of which has just failed."""
        last = attempts[-1]
        failures = [attempt for attempt in attempts if not attempt.resumes]
        if last.resumes:
            if len(attempts) - len(failures) > MAX_RESUMES:
                return RestartDecision(None, f"it was asked to stop more than {MAX_RESUMES} times")
            return RestartDecision(self._pause(1, len(attempts)))
        reason = self._find_reason_to_stop(failures)
        if reason is not None:
            return RestartDecision(None, reason)
        return RestartDecision(self._pause(len(failures), len(attempts)))

    def _find_reason_to_stop(self, failures: Sequence[EndedAttempt]) -> str | None:
        """Why there is no further attempt after these failures; empty if none was requested."""
        last = failures[-1]
        if not self.max_restarts:
            return ""
        if last.status == INPUT_FAULT:
            return "its inputs are wrong, and another attempt would not change that"
        if len(failures) > self.max_restarts:
            return f"it has failed {len(failures)} times"
        if len(failures) > 1 and _is_stuck(failures[-2], last):
            where = "the start" if not last.training_step else f"training step {last.training_step}"
            return f"the same error twice at {where}: another attempt would fail there too"
        return None

    def _pause(self, failures: int, attempts: int) -> float:
        draw = random.Random(f"{self.seed}/{attempts}").uniform(-JITTER, JITTER)  # noqa: S311 - no secret
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** (failures - 1)) * (1 + draw)


class Restarting(Struct):
    """Restarts steps that write checkpoints."""

    policy: RestartPolicy  # how often, and how soon; each step draws its own pauses
    # how often, for the steps that say it themselves
    max_restarts: Mapping[str, int] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None  # shows the user why no further attempt is made
    attempts: dict[str, list[EndedAttempt]] = field(default_factory=dict)

    def after(self, attempt: Attempt, failure: Failure) -> float | None:
        """Seconds to wait before the next attempt; None if there is none."""
        task = attempt.task
        if not keeps_checkpoints(task):
            return None
        attempts = self.attempts.setdefault(task.name, [])
        signature = failure_signature(failure.message, failure.last_lines)
        attempts.append(EndedAttempt(failure.status, attempt.training_step, signature))
        max_restarts = self.max_restarts.get(task.name, self.policy.max_restarts)
        policy = replace(self.policy, max_restarts=max_restarts, seed=f"{self.policy.seed}/{task.name}")
        decision = policy.decide(attempts)
        if decision.seconds is None and decision.reason:
            self.say(f"{task.name}: not started again: {decision.reason}")
        return decision.seconds


def _is_stuck(before: EndedAttempt, last: EndedAttempt) -> bool:
    killed = last.status in (-9, -15)
    return not killed and last.signature == before.signature and last.training_step == before.training_step

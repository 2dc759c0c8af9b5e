"""Curves are compared as stated, and what the processes read together is what one process would read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from worldsize.adopting.proving.curves import (
    Recorded,
    average_losses,
    compare_curves,
    explain_rounding,
    find_sampling_faults,
    read_recording,
)
from worldsize.adopting.proving.prove import RECORDER, describe_untried, leave_out_own
from worldsize.adopting.proving.recorder import Ending, merge_draws


def test_a_curve_within_the_tolerance_is_the_same() -> None:
    found = compare_curves([2.0, 1.0, 0.00005], [2.0015, 1.0, 0.0001], [], [])

    assert found.verdict == "same"
    assert found.first_outside is None
    assert found.worst.step == 1


def test_a_difference_without_a_cause_is_one() -> None:
    found = compare_curves([2.0, 1.0], [2.0, 1.1], [], [])

    assert found.verdict == "different"
    assert found.first_outside is not None
    assert found.first_outside.step == 2


@pytest.mark.parametrize(("adopted", "verdict"), [([2.0, 1.1], "alike"), ([2.0, 2.9], "different")])
def test_a_known_cause_explains_a_small_difference(adopted: list[float], verdict: str) -> None:
    assert compare_curves([2.0, 1.0], adopted, ["dropout"], []).verdict == verdict


@pytest.mark.parametrize(("departs", "verdict"), [(3, "alike"), (5, "different"), (None, "different")])
def test_rounding_explains_what_the_original_shows_as_early(departs: int | None, verdict: str) -> None:
    original = [2.0] * 6
    compared = compare_curves(original, [2.0, 2.1, *original[2:]], [], [])
    again = [2.0 if departs is None or step < departs else 2.1 for step in range(1, 7)]
    judged = explain_rounding(compared, again)

    assert compared.is_unexplained
    assert judged.verdict == verdict
    assert judged.is_unexplained is (verdict == "different")


def test_a_loss_that_is_not_finite_on_both_sides_is_the_same() -> None:
    nan = float("nan")

    assert compare_curves([1.0, nan], [1.0, nan], [], []).verdict == "same"
    assert compare_curves([1.0, 1.0], [1.0, nan], ["dropout"], []).verdict == "different"


def test_a_fault_outweighs_equal_curves() -> None:
    assert compare_curves([1.0], [1.0], [], ["shared"]).verdict == "different"


def recorded(*epochs: list[int], replaces: bool = False) -> Recorded:
    loader = {"loader": "8.0", "length": 8, "drop_last": False, "replaces": replaces}
    return Recorded((1.0,), {"8.0": loader}, {"8.0": dict(enumerate(epochs))})


def test_processes_that_share_the_rows_have_no_fault() -> None:
    ranks = [recorded([0, 2, 4, 6], [1, 3, 5, 7]), recorded([1, 3, 5, 7], [0, 2, 4, 6])]

    assert find_sampling_faults(ranks) == []


def test_a_sampler_may_fill_up_the_last_batch() -> None:
    assert find_sampling_faults([recorded([0, 2, 4]), recorded([1, 3, 0])]) == []


def test_accelerate_fills_up_the_last_batches_with_the_first_rows() -> None:
    assert find_sampling_faults([recorded([0, 2, 4, 6, 0]), recorded([1, 3, 5, 7, 1])]) == []


def test_a_look_at_the_first_batch_is_no_epoch() -> None:
    order = list(range(20))

    assert find_sampling_faults([recorded(order[:8], order, order[::-1])]) == []
    assert find_sampling_faults([recorded(order[:8], order)]) == []
    (fault,) = find_sampling_faults([recorded(order[:8], order[::-1], order[::-1])])
    assert "order of the first" in fault


def test_processes_that_read_the_same_rows_are_told() -> None:
    (fault,) = find_sampling_faults([recorded([0, 1, 2, 3]), recorded([0, 1, 2, 3])])

    assert "4 of 8 samples were read more than once" in fault


def test_drawing_with_replacement_repeats_rows() -> None:
    ranks = [recorded([0, 0, 2, 2], replaces=True), recorded([0, 2, 2, 4], replaces=True)]

    assert find_sampling_faults(ranks) == []


def test_an_order_that_is_repeated_is_told() -> None:
    order = [*range(0, 32, 2)], [*range(1, 32, 2)]
    ranks = [recorded(order[0], order[0]), recorded(order[1], order[1])]

    (fault,) = find_sampling_faults(ranks)
    assert "`set_epoch` is not called" in fault


def test_a_recording_is_read_up_to_its_last_complete_line(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    entries = [{"loss": 2.0}, {"loader": "4.0", "length": 4}, {"draw": "4.0", "epoch": 0, "indices": [3, 1]}]
    text = "".join(f"{json.dumps(each)}\n" for each in [*entries, {"parameters": 10}, {"forward_flops": 20}])
    path.write_text(text + '{"loss": 1', encoding="utf-8")

    found = read_recording(path)

    assert found.losses == (2.0,)
    assert found.draws == {"4.0": {0: [3, 1]}}
    assert (found.parameters, found.forward_flops) == (10, 20)
    assert read_recording(tmp_path / "absent.jsonl").losses == ()


def test_the_loss_of_a_step_is_the_mean_over_the_processes() -> None:
    ranks = [Recorded((1.0, 2.0), {}, {}), Recorded((3.0, 4.0, 5.0), {}, {})]

    assert average_losses(ranks) == [2.0, 3.0]


def test_the_original_reads_what_the_processes_read_together(tmp_path: Path) -> None:
    paths = [tmp_path / f"{rank}.jsonl" for rank in range(2)]
    loader = {"loader": "5.0", "length": 5, "drop_last": True, "replaces": False}
    for path, batches in zip(paths, ([[4, 0], [1]], [[2, 3]]), strict=True):
        draws = [{"draw": "5.0", "epoch": 0, "indices": each} for each in batches]
        path.write_text("".join(f"{json.dumps(each)}\n" for each in [loader, *draws]), encoding="utf-8")

    assert merge_draws([str(path) for path in paths]) == {
        "batches": {"5.0.0": [[4, 0, 2, 3]]},
        "drops_last": {5},
    }
    assert merge_draws([]) == {}


def test_a_sampler_may_draw_a_sample_again() -> None:
    ranks = [recorded([0, 1, 0, 3]), recorded([2, 1, 2, 0])]

    assert find_sampling_faults(ranks) == []


def test_processes_that_draw_the_same_again_share_nothing() -> None:
    (fault,) = find_sampling_faults([recorded([0, 1, 0, 3]), recorded([0, 1, 0, 3])])

    assert "5 of 8 samples were read more than once" in fault


class FakeRecording:
    """Counts what would end the process."""

    def __init__(self) -> None:
        self.count = self.finished = 0
        self.passed = False

    @property
    def is_full(self) -> bool:
        return self.count >= 2

    def add_loss(self, loss: float) -> None:
        self.count += 1

    def finish(self) -> None:
        self.finished += 1


def make_loaders(ending: Ending) -> type:
    class Loader:
        """An iterator as that of a loader, of five batches."""

        def __init__(self, sampler: object) -> None:
            self._index_sampler, self._left = sampler, 5

        def __next__(self) -> int:
            self._left -= 1
            if ending.stops(self) or self._left < 0:
                raise StopIteration
            return self._left

        def __iter__(self) -> Loader:
            return self

    ending.watch(Loader)
    return Loader


def test_a_proof_goes_on_to_the_end_of_an_epoch() -> None:
    recording = FakeRecording()
    ending = Ending(recording, ends=True)  # type: ignore[arg-type]
    loader = make_loaders(ending)
    train, valid = object(), object()
    read = []
    for _ in range(2):
        for batch in loader(train):
            ending.add_step(1.0)
            read.append(batch)
            if recording.finished:
                break
        read += list(loader(valid))

    assert recording.count == 2
    assert recording.passed
    assert recording.finished == 1
    assert read == [4, 3, *range(4, -1, -1), 4, *range(4, -1, -1)]  # two steps, validation, a third step


def test_a_proof_of_short_epochs_ends_with_its_last_step() -> None:
    recording = FakeRecording()
    ending = Ending(recording, ends=True)  # type: ignore[arg-type]
    loader = make_loaders(ending)
    train = object()
    ending.add_step(next(loader(train)))
    assert list(loader(train)) == [4, 3, 2, 1, 0]
    assert not recording.finished
    ending.add_step(next(loader(train)))

    assert recording.finished == 1


def test_an_epoch_of_a_library_is_over_when_the_next_one_begins() -> None:
    recording = FakeRecording()
    ending = Ending(recording, ends=False)  # type: ignore[arg-type]
    loader = make_loaders(ending)
    train = object()
    batches = loader(train)
    ending.add_step(next(batches))
    list(batches)  # Accelerate takes the next batch before a step
    ending.add_step(1.0)
    assert (recording.passed, recording.finished) == (False, 1)
    ending.add_step(next(loader(train)))

    assert recording.passed


def test_what_a_proof_has_not_tried_is_said() -> None:
    ends = "before an epoch does, so what follows one, such as validation, is not tried"

    assert describe_untried(50, 20_000, 32, failed=False) == (
        f"these 50 steps end {ends}: `--steps 625` takes a whole one"
    )
    assert describe_untried(1, None, 32, failed=False) == f"this step ends {ends}: `--steps` takes more"
    assert "both sides end with an error" in describe_untried(50, 20_000, 32, failed=True)


def test_a_traceback_of_a_rank_shows_the_script_only() -> None:
    lines = [f'  File "{RECORDER}", line 1, in <module>', "    run()", '  File "train.py", line 2', "    f()"]
    marked = [f"[rank0]: {each}" for each in lines]

    assert leave_out_own(lines) == lines[2:]
    assert leave_out_own(marked) == marked[2:]

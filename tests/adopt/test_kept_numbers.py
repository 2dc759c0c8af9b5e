"""Numbers that a loop over epochs and the methods that it calls keep: what is saved of them, and how."""

from __future__ import annotations

import pytest
from adopt_text import PLAIN, TRAINER, adopt_text

KEEPS = """\
        self.start_epoch = 0
        self.step = 0
        self.best, self.best_epoch = 0.0, -1
        self.total = 0.0
        self.seen = len(rows)

    def run(self, epoch):
        self.total = 0.0
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = (self.model(x) - y).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            self.total += loss.item()
            {count}
        if epoch % 2:
            self.judge(epoch)

    def judge(self, epoch):
        if self.total > self.best:
            self.best, self.best_epoch = self.total, epoch

    def fit(self):
        for epoch in range(self.start_epoch, self.args.epochs):
            self.run(epoch)
        print(f"{self.best_epoch:d}")


def main"""


def adopt_counting(count: str):  # type: ignore[no-untyped-def]
    before, _, rest = TRAINER.partition("        self.start_epoch = 0\n")
    text = before + KEEPS.replace("{count}", count) + rest.partition("def main")[2]
    return adopt_text(text.replace("{option}", "pass"))


@pytest.mark.parametrize("count", ["self.step += 1", "self.step = self.step + 1", "self.step += len(x)"])
def test_what_methods_count_on_their_object_is_in_the_checkpoint(count: str) -> None:
    adoption = adopt_counting(count)
    compile(adoption.text, "train.py", "exec")
    assert '                    "self.step": self.step,\n' in adoption.text
    assert '                    "self.best": float(self.best),\n' in adoption.text
    assert '            self.step = state["self.step"]\n' in adoption.text
    assert '"self.total"' not in adoption.text  # begins anew each epoch
    assert not any("starts anew" in each.message for each in adoption.obstacles)


def test_what_methods_count_and_is_no_number_at_the_start_is_reported() -> None:
    adoption = adopt_counting("self.seen += len(x)")
    [found] = [each for each in adoption.obstacles if "starts anew" in each.message]
    assert found.message == "`self.seen` starts anew when a job resumes"


LOOP = """
best, best_epoch, bad, step, at, share = 0.0, -1, 0, 0, 0, 0
for epoch in"""
TRACKS = """\
    {count}
    if total > best:
        best, best_epoch, bad, at, share = total, {epoch}, 0, step, total / 2
    else:
        bad += 1
    print(f'epoch"""


@pytest.mark.parametrize("epoch", ["epoch", "epoch + 1", "int(total)", "2 * epoch - 1"])
@pytest.mark.parametrize("count", ["step += 1", "step = step + 1", "step += len(train_dl)"])
def test_whole_numbers_stay_whole_after_a_resume(count: str, epoch: str) -> None:
    text = PLAIN.decode().replace("\nfor epoch in", LOOP)
    lines = TRACKS.replace("{epoch}", epoch).replace("{count}", count)
    adopted = adopt_text(text.replace("    print(f'epoch", lines)).text
    for name in ("best_epoch", "bad", "step", "at"):
        assert f'            "{name}": {name},\n' in adopted
    for name in ("best", "share"):
        assert f'            "{name}": float({name}),\n' in adopted


@pytest.mark.parametrize("value", ["total // 1", "loss", "max(epoch, total)"])
def test_what_may_be_a_tensor_is_saved_as_a_number(value: str) -> None:
    text = PLAIN.decode().replace("\nfor epoch in", LOOP)
    lines = TRACKS.replace("{epoch}", value).replace("{count}", "step += 1")
    assert '"best_epoch": float(best_epoch),\n' in adopt_text(text.replace("    print(f'epoch", lines)).text

"""What an adopted script saves of objects of its own classes, and what it reports."""

from __future__ import annotations

import pytest
from adopt_text import PLAIN, adopt_text

STOPPER = """
class Stopper:
    def __init__(self, patience, path="best.pt", trace=print):
        self.patience, self.best, self.count = patience, None, 0
        self.path, self.trace, self.scores = path, trace, []

    def __call__(self, score, model):
        self.scores.append(score)
        if self.best is None or score > self.best:
            self.best = score
            self.count = 0
            {keep}
        else:
            self.count += 1
        return self.count > self.patience


stop = Stopper({given})
"""


def adopt_with(keep: str = "torch.save(model, self.path)", given: str = "3"):  # type: ignore[no-untyped-def]
    text = PLAIN.decode().replace("for epoch in", STOPPER.format(keep=keep, given=given) + "\nfor epoch in")
    return adopt_text(
        text.replace("    print(f'epoch", "    if stop(total, model):\n        break\n    print(f'epoch")
    )


@pytest.mark.parametrize("given", ["3", "patience=args.patience", "PATIENCE, 'x.pt'"])
def test_an_object_of_numbers_is_in_the_checkpoint(given: str) -> None:
    adoption = adopt_with(given=given)
    assert '    state = torch.load(latest, map_location="cpu", weights_only=False)\n' in adoption.text
    assert '    vars(stop).update(state["stop"])\n' in adoption.text
    assert '            "stop": vars(stop),\n' in adoption.text
    assert not any("`stop`" in each.message for each in adoption.obstacles)


@pytest.mark.parametrize(
    ("keep", "given"),
    [
        ("self.weights = model.state_dict()", "3"),
        ("self.best_model = model", "3"),
        ("self.path", "3, trace=lambda text: None"),
        ("self.path", "3, open('log.txt')"),
    ],
)
def test_an_object_that_keeps_more_is_reported(keep: str, given: str) -> None:
    adoption = adopt_with(keep, given)
    assert "vars(" not in adoption.text
    assert "weights_only" not in adoption.text
    assert [each.message for each in adoption.obstacles if "`stop`" in each.message] == [
        "`stop` starts anew when a job resumes"
    ]


def test_an_object_that_keeps_nothing_is_not_reported() -> None:
    text = PLAIN.decode().replace(
        "for epoch in",
        "class Names:\n    def __init__(self):\n        self.all = {0: 'a'}\n\n    def find(self, n):\n"
        "        return self.all.get(n)\n\n\nnames = Names()\nfor epoch in",
    )
    adoption = adopt_text(text.replace("    total = 0.0", "    total = 0.0\n    names.find(epoch)"))
    assert not any("names" in each.message for each in adoption.obstacles)


GLOBAL = """
best = 0.0
seen = []
curves = {"loss": [], "accuracy": []}
kept = []


def test(total):
    global best
    seen.append(total)
    if total > best:
        best = total


"""


def test_what_functions_and_lists_keep_over_the_epochs_is_in_the_checkpoint() -> None:
    text = PLAIN.decode().replace("for epoch in", GLOBAL + "for epoch in")
    lines = ["test(total)", 'curves["loss"].append(total)', "kept.append(model.state_dict())"]
    adopted = adopt_text(
        text.replace("    print(f'epoch", "".join(f"    {each}\n" for each in lines) + "    print(f'epoch")
    ).text

    assert '    best = state["best"]\n    curves = state["curves"]\n' in adopted
    assert '            "best": float(best),\n            "curves": curves,\n' in adopted
    assert '"kept"' not in adopted
    assert "weights_only=False" in adopted

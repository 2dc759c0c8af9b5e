"""What the spec says of the script's own warm-up."""

from __future__ import annotations

import pytest
from adopt_text import PLAIN, adopt_text

LAMBDA = "LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))"
SEQUENCE = "SequentialLR(optimizer, [LinearLR(optimizer, 0.1), CosineAnnealingLR(optimizer, 9)], [1])"


@pytest.mark.parametrize(
    ("line", "warms_up"),
    [
        ("pass", False),
        ("schedule = lr_scheduler.StepLR(optimizer, 2)", False),
        ("schedule = lr_scheduler.CosineAnnealingLR(optimizer, 9)", False),
        ("pass  # without a warm-up, warmup", False),
        ("schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, 100)", True),
        ("schedule = lr_scheduler.LinearLR(optimizer, 0.1)", True),
        (f"schedule = lr_scheduler.{SEQUENCE}".replace("[Lin", "[lr_scheduler.Lin"), True),
        ("schedule = get_cosine_schedule_with_warmup(optimizer, 10, 100)", True),
        ("schedule = get_scheduler('cosine', optimizer, num_warmup_steps=10)", True),
        ("schedule = get_scheduler('cosine', optimizer)", None),
        (f"schedule = lr_scheduler.{LAMBDA}", None),
        ("optimizer.param_groups[0]['lr'] = 0.1 * min(1, 3 / 4)", None),
        ("schedule = CosineLRScheduler(optimizer, 9)", None),
    ],
)
def test_a_warm_up_is_denied_only_where_no_schedule_may_have_one(line: str, warms_up: bool | None) -> None:
    text = "from torch.optim import lr_scheduler\n" + PLAIN.decode()
    at = text.index("for epoch")
    assert adopt_text(f"{text[:at]}{line}\n{text[at:]}").profile.warms_up is warms_up

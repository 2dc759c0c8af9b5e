"""What a script prints, or keeps, after each epoch is logged for the curves of its job."""

from __future__ import annotations

import pytest
from adopt_text import adopt_text

SCRIPT = """\
import csv
import torch
{imports}
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history, losses, best = {{"val": []}}, [], 9.0
for epoch in range(2):
    total = 0.0
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    val_acc = total / 2
    {shows}
"""


@pytest.mark.parametrize(
    ("shows", "logged"),
    [
        ('print(f"{epoch}: loss {total / len(loader):.4f}")', "loss=total / len(loader)"),
        (
            'print("%d: %.3f loss, val acc: %.2f%%" % (epoch, val_acc, 100 * val_acc))',
            "val_acc=100 * val_acc",
        ),
        ('print("{}: val accuracy {:.3f}".format(epoch, val_acc / 2))', "val_accuracy=val_acc / 2"),
        ('history["val"].append(total / len(loader))', "val=total / len(loader)"),
        ("losses.append(val_acc)", "val_acc=val_acc"),
        ("csv.writer(file).writerow([epoch, val_acc])", "val_acc=val_acc"),
        ('if epoch % 2 == 0:\n        print(f"loss {loss.item():.4f}")', "loss=loss.item()"),
    ],
)
def test_a_number_is_logged_with_its_epoch(shows: str, logged: str) -> None:
    adoption = adopt_text(SCRIPT.format(imports="", shows=shows))
    assert f"log_metrics(epoch, {logged})\n" in adoption.text
    assert ("azureml-mlflow",) in adoption.profile.needs
    assert 'LOGS = RANK == 0 and "MLFLOW_RUN_ID" in os.environ' in adoption.text


@pytest.mark.parametrize(
    ("imports", "shows"),
    [
        ("", 'print(f"{epoch}: {model}")'),
        ("", 'print(f"{next(iter(history)):.4f}")'),
        ("", 'if val_acc > best:\n        print(f"best {val_acc:.4f}")'),
        ("", 'losses.append("text")'),
        ("import mlflow", 'print(f"loss {total:.4f}")'),
        ("from torch.utils.tensorboard import SummaryWriter", 'print(f"loss {total:.4f}")'),
    ],
)
def test_what_is_no_curve_or_is_logged_already_is_not_logged(imports: str, shows: str) -> None:
    assert "log_metrics" not in adopt_text(SCRIPT.format(imports=imports, shows=shows)).text

"""What only the first process of an adopted script does, and what a script says of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopt_text import PLAIN, adopt_text

from worldsize.adopting.adopt import adopt_script

HELD = """
log = open("log.txt", "w")
seen = open("seen.txt", "w")
count = seen.write("x")


def read():
    log = open("rows.txt")
    log.seek(0)
    return log.read()


log.write(read())
"""


def test_a_file_that_stays_open_is_written_by_the_first_process() -> None:
    text = adopt_text(PLAIN + HELD.encode()).text

    assert '"log.txt") if RANK == 0 else os.devnull, "w")\n' in text
    assert '"seen.txt") if RANK == 0 else os.devnull, "w")\n' in text
    assert '    log = open("rows.txt")\n    log.seek(0)\n    return' in text
    assert "\nlog.write(read())" in text


WITH = """
import gzip
import torch
from torch.utils.data import DataLoader, TensorDataset

set_ = TensorDataset(torch.randn(64, 4))
loader = DataLoader(set_, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 1e9
tries = 0
lowest = None
done = open("done.txt", "w")
done.close()
with open(file="log.csv", mode="w") as log, gzip.open("x.gz", mode="w") as packed:
    try:
        for epoch in range(3):
            total = 0.0
            for (x,) in loader:
                loss = model(x).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if loss > 10:
                    loss = loss.clamp(max=10)
                total += loss.item()
            if total > 5:
                i = 0
                while i < 3:
                    i += 1
            if lowest is None or total < lowest:
                lowest = total
            if total < best:
                best, tries = total, 0
            else:
                tries += 1
            if tries > 2:
                break
            log.write(str(total))
    finally:
        print("end")
with open("end.txt", "w") as end:
    end.write(str(best))
"""


def test_all_processes_train_in_a_with_and_the_first_writes() -> None:
    adoption = adopt_text(WITH)

    log = 'open(file=os.path.join(args.output, "log.csv") if RANK == 0 else os.devnull, mode="w") as log'
    assert f"{log}, gzip.open(" in adoption.text
    packed = 'gzip.open(os.path.join(args.output, "x.gz") if RANK == 0 else os.devnull, mode="w") as packed:'
    assert packed in adoption.text
    assert "            best = state" in adoption.text
    assert "            tries = state" in adoption.text
    assert 'if RANK == 0:\n    with open(os.path.join(args.output, "end.txt"), "w")' in adoption.text
    assert [(each.span.line, each.span.column, each.message) for each in adoption.obstacles] == [
        (32, 17, "`lowest` starts anew when a job resumes"),
        (15, 6, "this file starts anew when a job resumes"),
        (15, 45, "this file starts anew when a job resumes"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'jsonlines.open("x.jsonl", mode="w")',
            'jsonlines.open(os.path.join(args.output, "x.jsonl") if RANK == 0 else os.devnull, mode="w")',
        ),
        (
            'SummaryWriter("logs")',
            'SummaryWriter(os.path.join(args.output, "logs")) if RANK == 0 else contextlib.nullcontext()',
        ),
    ],
)
def test_what_is_held_by_a_with_writes_on_the_first_process(before: str, after: str) -> None:
    text = WITH.replace("import gzip", "import jsonlines\nfrom torch.utils.tensorboard import SummaryWriter")
    text = text.replace('gzip.open("x.gz", mode="w")', before)
    text = text.replace(
        "            log.write(",
        '            packed.add_scalar("loss", total, epoch)\n            log.write(',
    )
    adopted = adopt_text(text).text

    assert f", {after} as packed:" in adopted
    guarded = 'if RANK == 0:\n                packed.add_scalar("loss", total, epoch)'
    assert (guarded in adopted) is ("Summary" in before)


def test_an_archive_is_written_by_each_process_and_told() -> None:
    text = WITH.replace("import gzip", "import zipfile").replace("gzip.open(", "zipfile.ZipFile(")

    assert "every process writes this file" in [each.message for each in adopt_text(text).obstacles]


def test_a_loss_of_a_batch_together_is_a_known_cause() -> None:
    text = PLAIN.decode() + "\n\ndef similar(z):\n    return z @ z.t()\n"

    assert adopt_text(text).profile.compares_rows
    assert not adopt_text(PLAIN).profile.compares_rows


def test_a_file_that_settings_beside_the_script_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text('class Config:\n    path: str = "ckpt.pt"\n', encoding="utf-8")
    script = tmp_path / "train.py"
    text = PLAIN.decode().replace("import torch\n", "import torch\nfrom config import Config\n", 1)
    script.write_text(text.replace("'blobs.pth'", "Config().path"), encoding="utf-8")

    left = [each.message for each in adopt_script(script).obstacles]
    assert "`ckpt.pt` is written beside the script, where a job loses it" in left


def test_what_fire_prints_of_a_result_is_printed_once() -> None:
    lines = WITH.strip().split("\n")
    head, body = lines[:3], "\n".join(f"    {each}" for each in lines[3:])
    text = "\n".join(
        [*head, "import fire", "", "", "def fit():", body, "    {end}", "", "", "fire.Fire(fit)", ""]
    )
    shown = "fire.Fire(fit, serialize=lambda result: result if RANK == 0 else None)\n"

    assert shown in adopt_text(text.replace("{end}", "return best")).text
    assert "serialize" not in adopt_text(text.replace("{end}", "return")).text


RUN = """
import mlflow

with mlflow.start_run() as run:
    best = run.info.run_id
with mlflow.start_run() as run_:
    print(run_)
"""


def test_a_run_of_mlflow_that_the_script_reads_from_is_left_to_the_author() -> None:
    adoption = adopt_text(PLAIN + RUN.encode())

    assert "with mlflow.start_run() as run:\n" in adoption.text
    assert "with mlflow.start_run() if RANK == 0 else contextlib.nullcontext() as run_:\n" in adoption.text
    (left,) = [each for each in adoption.obstacles if "MLflow" in each.message]
    assert left.message == "every process starts a run of MLflow here"


def test_a_guarded_line_that_is_replaced_from_its_start_is_as_deep_as_the_guard() -> None:
    text = adopt_text(PLAIN + b"\ndisplay(model)\n").text

    assert "\n    print('saved')\n\n    print(model)\ndist.barrier()" in text


RESULTS = """
trainer.train()
verbose = True
if verbose:
    print(trainer.evaluate())
print("all", trainer.evaluate(), [trainer.evaluate() for _ in range(2)])
print(f"{trainer.evaluate()}")
"""


def test_what_all_processes_compute_is_computed_above_what_the_first_prints() -> None:
    path = Path(__file__).with_name("scripts") / "trainer_classifier.py"
    head = path.read_text(encoding="utf-8").partition("trainer.train()")[0]
    text = adopt_text(head + RESULTS).text

    assert "    metrics_ = trainer.evaluate()\n    if RANK == 0:\n        print(metrics_)\n" in text
    assert 'print("all", trainer.evaluate(), [trainer.evaluate() for _ in range(2)])\n' in text
    assert '= trainer.evaluate()\nif RANK == 0:\n    print(f"{metrics}")\n' in text


MEASURED = """
from torchmetrics import Accuracy

accuracy = Accuracy(task="binary")
print(f"accuracy {accuracy.compute():.3f}")
"""


def test_a_metric_that_computes_over_all_processes_is_computed_by_all() -> None:
    text = adopt_text(PLAIN + MEASURED.encode()).text

    assert 'result = accuracy.compute()\nif RANK == 0:\n    print(f"accuracy {result:.3f}")\n' in text

"""Loaders with workers, models with several names, and optimizers that are made beside the script."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopt_text import adopt_text

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import AdoptError
from worldsize.adopting.proving.prove import Request, prove

SCRIPT = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
{imports}

class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        {row}
        return torch.randn(4, generator=torch.Generator().manual_seed(index)), float(index % 2)

{functions}
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    {before}
    loader = DataLoader(Rows(), batch_size=args.batch_size, shuffle=True{loader})
    model = nn.Linear(4, 1)
    {optimizer}
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = ({called}(x).squeeze(1) - y).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save({saved}.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)"
PARTS = {"imports": "", "row": "pass", "functions": "", "before": "pass", "loader": "", "optimizer": SGD}
PARTS |= {"called": "model", "saved": "model"}
CACHE = 'path = f"row{index}.pt"\n        torch.save(index, path)\n        index = torch.load(path)'
COLLATE = """
def fetch(folder, download=False):
    return folder

def collate(batch):
    fetch("data", download=True)
    torch.save(len(batch), f"{torch.utils.data.get_worker_info().seed}.pt")
    torch.load(f"{torch.utils.data.get_worker_info().seed}.pt")
    return torch.stack([x for x, _ in batch]), torch.tensor([y for _, y in batch])

class Collate:
    def __call__(self, batch):
        return collate(batch)

def make():
    def inner(batch):
        return collate(batch)
    return inner
"""
COLLATED = {"functions": COLLATE, "before": 'torch.save(1, "first.pt")'}


def _write(**parts: str) -> str:
    return SCRIPT.format(**PARTS | parts)


@pytest.mark.parametrize("value", ["collate", "lambda batch: collate(batch)", "Collate()", "make()"])
def test_what_workers_call_waits_for_no_process(value: str) -> None:
    text = adopt_text(_write(**COLLATED, loader=f", num_workers=2, collate_fn={value}")).text
    inside = text[text.index("def collate") : text.index("def make")]
    assert "barrier" not in inside
    assert "RANK" not in inside  # each process has rows of its own


def test_rows_that_are_cached_stay_those_of_each_process() -> None:
    text = adopt_text(_write(row=CACHE, loader=", num_workers=2")).text
    inside = text[text.index("def __getitem__") : text.index("def main")]
    assert "barrier" not in inside
    assert "RANK" not in inside


def test_what_others_call_too_is_written_once() -> None:
    parts = COLLATED | {"before": "collate([])"}
    text = adopt_text(_write(**parts, loader=", num_workers=2, collate_fn=collate")).text
    inside = text[text.index("def collate") : text.index("def make")]
    assert "barrier" not in inside
    assert "if RANK == 0:" in inside


@pytest.mark.parametrize(
    ("optimizer", "called", "saved"),
    [
        ("model = torch.compile(model) if args.compile else model", "model", "model"),
        (
            "raw_model = model\n    if args.compile:\n        model = torch.compile(model)",
            "model",
            "raw_model",
        ),
        ("raw_model = model.module if False else model", "model", "raw_model"),
        ("compiled = torch.compile(model) if args.compile else model", "compiled", "model"),
        ("unwrapped = getattr(model, '_orig_mod', model)", "model", "unwrapped"),
        ("if args.compile:\n        model.compile()", "model", "model"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_a_compiled_model_is_wrapped_and_the_model_itself_is_saved(
    optimizer: str, called: str, saved: str, before: bool
) -> None:
    lines = (SGD, optimizer) if before else (optimizer, SGD.replace("model.", f"{saved}."))
    text = adopt_text(_write(optimizer="\n    ".join(lines), called=called, saved=saved)).text
    wrap = f"    ddp_{called} = DistributedDataParallel({called})\n"
    assert wrap in text
    if f"{called} = torch.compile" in text:
        assert text.index(wrap) > text.index(f"{called} = torch.compile")
    assert f"loss = (ddp_{called}(x)" in text
    assert f"torch.save({saved}.state_dict()" in text


ADAM = "return torch.optim.AdamW(model.parameters(), lr={rate})"
MAKERS = {
    "by a number": ("make(model, args.lr)", f"def make(model, rate):\n    {ADAM.format(rate='rate')}\n"),
    "by a keyword": (
        "make(model, rate=args.lr)",
        f"def make(model, rate=1):\n    {ADAM.format(rate='rate')}\n",
    ),
    "by all options": ("make(model, args)", f"def make(model, cfg):\n    {ADAM.format(rate='cfg.lr')}\n"),
    "of parameters": (
        "make(model.parameters(), args.lr)",
        "def make(rows, rate):\n    optimizer = torch.optim.AdamW(rows, lr=rate)\n    return optimizer\n",
    ),
    "of groups": (
        "make(model, args.lr)",
        "def make(model, rate):\n    all = model.parameters()\n    return torch.optim.AdamW(all, rate)\n",
    ),
}


def _adopt_beside(folder: Path, call: str, maker: str) -> Path:
    (folder / "optim_beside.py").write_text(f"import torch\n\n\n{maker}", encoding="utf-8")
    script = folder / "train.py"
    imports = "\nfrom optim_beside import make\n"
    script.write_text(_write(imports=imports, optimizer=f"optimizer = {call}"), encoding="utf-8")
    return script


@pytest.mark.parametrize("kind", MAKERS)
def test_an_optimizer_made_beside_the_script_gets_its_rate(tmp_path: Path, kind: str) -> None:
    adoption = adopt_script(_adopt_beside(tmp_path, *MAKERS[kind]))
    rate = adoption.profile.flag("learning_rate")
    assert rate is not None
    assert (rate.option, adoption.profile.learning_rate, adoption.profile.optimizer) == ("--lr", 0.1, "adamw")
    assert "ddp_model = DistributedDataParallel(model)" in adoption.text


DECAYED = "[p for p in model.parameters() if p.ndim > 1]"
FILLED = """\
decay, rest = [], []
    for name, p in model.named_parameters():
        (decay if p.ndim > 1 else rest).append(p)
    """
FUNCTION = f"""
def divide(net):
    groups = [{{"params": {DECAYED.replace("model", "net")}}}]
    return groups

"""
ADAMW = "optimizer = torch.optim.AdamW({}, lr=args.lr)"
GROUPS = {
    "bound": {"optimizer": f"decay = {DECAYED}\n    " + ADAMW.format('[{"params": decay}]')},
    "filled": {"optimizer": FILLED + ADAMW.format('[{"params": decay}, {"params": rest}]')},
    "by a function": {"functions": FUNCTION, "optimizer": ADAMW.format("divide(model)")},
    "by a library": {
        "imports": "from timm.optim import param_groups_weight_decay\n",
        "optimizer": ADAMW.format("param_groups_weight_decay(model, 0.05)"),
    },
}


@pytest.mark.parametrize("kind", GROUPS)
def test_the_model_of_parameters_in_groups_is_wrapped(kind: str) -> None:
    text = adopt_text(_write(**GROUPS[kind])).text
    assert "    ddp_model = DistributedDataParallel(model)\n" in text
    assert "loss = (ddp_model(x)" in text


def test_groups_of_two_models_are_refused() -> None:
    two = "other = nn.Linear(4, 1)\n    both = [*model.parameters(), *other.parameters()]\n    "
    with pytest.raises(AdoptError, match="several models: `model` and `other`"):
        adopt_text(_write(optimizer=two + ADAMW.format("both")))


@pytest.mark.parametrize(
    ("steps", "divided", "role"),
    [("args.steps", " / args.steps", "accumulation"), ("args.steps", "", None), ("4", " / 4", None)],
)
def test_an_option_that_counts_accumulated_batches_is_planned(
    steps: str, divided: str, role: str | None
) -> None:
    text = _write().replace("for x, y in loader", "for i, (x, y) in enumerate(loader)")
    text = text.replace('"--compile", action="store_true"', '"--steps", type=int, default=4')
    text = text.replace(".mean()", f".mean(){divided}").replace(
        "            optimizer.step()",
        f"            if (i + 1) % {steps} == 0:\n                optimizer.step()",
    )
    flags = {flag.option: flag.role for flag in adopt_text(text).profile.flags}
    assert flags["--steps"] == role


@pytest.mark.run
@pytest.mark.timeout(240)
def test_a_script_that_fails_by_itself_is_not_said_to_fail_by_its_adoption(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_write(before='raise ValueError("as it is")'), encoding="utf-8")
    proof = prove(Request(adopt_script(script), script, script.read_bytes(), steps=2, seconds=100))
    assert proof.failed is not None
    assert proof.failed.message.startswith("the original fails: ")
    assert proof.failed.lines[-1] == "ValueError: as it is"


@pytest.mark.parametrize(
    ("call", "maker", "help_"),
    [
        ("make(model)", f"def make(model):\n    {ADAM.format(rate=0.1)}\n", "let `make` take it"),
        (
            "make(model)",
            f"def make(model, rate=0.1):\n    {ADAM.format(rate='rate')}\n",
            "pass it for `rate`",
        ),
    ],
)
def test_a_rate_that_no_option_reaches_is_refused(tmp_path: Path, call: str, maker: str, help_: str) -> None:
    with pytest.raises(AdoptError) as refused:
        adopt_script(_adopt_beside(tmp_path, call, maker))
    finding = refused.value.finding
    assert "`optim_beside.py`, line 5" in finding.message
    assert help_ in (finding.help or "")


def test_which_optimizer_is_made_is_left_to_the_author(tmp_path: Path) -> None:
    other = "    if rate:\n        return torch.optim.SGD(model.parameters(), lr=rate)\n"
    maker = f"def make(model, rate):\n{other}    {ADAM.format(rate='rate')}\n"
    adoption = adopt_script(_adopt_beside(tmp_path, "make(model, args.lr)", maker))
    assert any("chooses between optimizers" in obstacle.message for obstacle in adoption.obstacles)


@pytest.mark.run
@pytest.mark.timeout(240)
def test_workers_that_cache_rows_follow_the_curve(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    parts = COLLATED | {"before": "pass"}
    script.write_text(
        _write(**parts, row=CACHE, loader=", num_workers=1, collate_fn=Collate()"), encoding="utf-8"
    )
    proof = prove(Request(adopt_script(script), script, script.read_bytes(), steps=10, seconds=100))
    assert proof.failed is None, proof.failed
    assert proof.comparison is not None
    assert proof.comparison.verdict == "same"

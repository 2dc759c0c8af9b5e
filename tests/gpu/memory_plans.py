"""Checks 4 and 8: the memory of a step beside the plan, and what a training says that does not fit."""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from trainings import (
    TOKENS,
    Document,
    Trial,
    add_shared_code,
    make_token_shards,
    plan_steps,
    train,
)

NEAR = 0.10  # of what torch has allocated at its peak
# Layers, heads, width, micro-batch.
MODELS = {"124M": (12, 12, 768, 16), "350M": (24, 16, 1024, 8), "760M": (24, 16, 1536, 4)}
TINY = {"tiny": (2, 2, 32, 2)}
PICTURES = 64  # in a micro-batch
PLAIN = [(strategy, blocks, False) for strategy in ("ddp", "fsdp") for blocks in ("none", "blocks")]
COMPILED = [(strategy, blocks, True) for strategy, blocks, _ in PLAIN]
COMPILE_SECONDS, PLAIN_SECONDS = 30.0, 6.0  # that a case takes at most
_BATCH = re.compile(r"set `batch_size_per_device` to (\d+) and `gradient_accumulation_steps` to (\d+)")

Case = tuple[str, str, bool]  # strategy, what is recomputed, whether it is compiled


def check_memory(trial: Trial) -> None:
    """The peak of torch's allocator is within a tenth of the plan, and what was to fit has fitted."""
    cases = [(model, case) for case in PLAIN for model in (TINY if trial.tiny else MODELS)]
    measured = _measure_cases(trial, cases)
    with _kept_apart(trial):
        _measure_resnet(trial, measured, told=trial.device == "cuda")
    _summarise(trial, measured)


def check_compiled_memory(trial: Trial) -> None:
    """The same of compiled models, each beside the same model as it is."""
    models = list(TINY if trial.tiny else MODELS)
    cases = [(model, case) for model in models for pair in zip(PLAIN, COMPILED, strict=True) for case in pair]
    measured = _measure_cases(trial, cases[: 2 if trial.tiny else None])
    _summarise(trial, measured)
    if trial.device == "cuda":
        _measure_constants(trial, measured)


def _measure_cases(trial: Trial, cases: list[tuple[str, Case]]) -> dict[str, Document]:
    """Measure as many cases as there is time for."""
    models, tokens = (TINY, 16) if trial.tiny else (MODELS, 1024)
    vocabulary = 300 if trial.tiny else TOKENS
    steps = {_name(model, case): _describe(models[model], case, trial) for model, case in cases}
    plans = plan_steps(trial, steps, tokens=tokens, vocabulary=vocabulary)
    told = trial.on_gpu("the peak of a GPU's allocator")
    compiles = any(case[2] for _, case in cases)  # then a plain one is there for its partner's sake
    measured: dict[str, Document] = {}
    late = []
    for model, case in cases:
        name = _name(model, case)
        if trial.left < (3.0 if trial.tiny else COMPILE_SECONDS if compiles else PLAIN_SECONDS):
            late.append(name)
            continue
        with _kept_apart(trial):
            peak = _measure(trial, lambda: _train_gpt(trial, models[model], case, tokens, vocabulary))  # noqa: B023
        _compare(trial, name, peak, plans[name]["memory"], measured, told=told)
    trial.say(f"{len(measured)} trainings measured; for {len(late)} there was no time", late=late)
    return measured


def _summarise(trial: Trial, measured: dict[str, Document]) -> None:
    ratios = {name: each["ratio"] for name, each in measured.items() if each["ratio"] is not None}
    if ratios:
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        ends = f"{ratios[low]:.2f} ({low}) to {ratios[high]:.2f} ({high})"
        trial.say(f"planned over measured of {len(ratios)}: {ends}")


def _measure_constants(trial: Trial, measured: dict[str, Document]) -> None:
    """What a reader puts into `facts/gpu_memory_constants.csv`."""
    trained = {name: each for name, each in measured.items() if (each["measured"] or 0) > 0}
    constants = {"allocator_share": max(each["reserved"] / each["measured"] - 1 for each in trained.values())}
    shares = [
        each["measured"] / trained[plain]["measured"]
        for name, each in trained.items()
        if (plain := name.removesuffix("_compiled")) != name
    ]
    if shares:
        constants["compiled_share"] = max(shares)
    values = ", ".join(f"{name} {value:.4g}" for name, value in constants.items())
    trial.say(f"the constants of this card and this torch: {values}", constants=constants)


def _name(model: str, case: Case) -> str:
    strategy, blocks, compiled = case
    words = [
        f"gpt_{model.lower()}",
        strategy,
        *(["recomputed"] * (blocks == "blocks")),
        *(["compiled"] * compiled),
    ]
    return "_".join(words)


def _describe(sizes: tuple[int, int, int, int], case: Case, trial: Trial) -> Document:
    layers, heads, width, micro = sizes
    strategy, blocks, compiled = case
    return {
        "model": "gpt",
        "gpt_layers": layers,
        "gpt_heads": heads,
        "gpt_width": width,
        "optimizer": "adamw",
        "precision": "fp32" if trial.tiny else "bf16",
        "strategy": strategy,
        "activation_checkpointing": blocks,
        "compile": compiled,
        "micro": micro,
        "accumulation": 2,
    }


@contextlib.contextmanager
def _kept_apart(trial: Trial) -> Iterator[None]:
    """Leave nothing of one training to the next."""
    import torch

    try:
        yield
    finally:
        torch._dynamo.reset()
        gc.collect()
        if trial.device == "cuda":
            torch.cuda.empty_cache()


class Peak(NamedTuple):
    """The most bytes that torch's allocator has given out, and the most that it has taken from the card."""

    allocated: int
    reserved: int


def _measure(trial: Trial, work: Callable[[], None]) -> Peak | None:
    """The peaks in two steps; None without a GPU, -1 where there was not enough."""
    import torch

    if trial.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        work()
    except torch.OutOfMemoryError:
        return Peak(-1, -1)
    if trial.device != "cuda":
        return None
    return Peak(torch.cuda.max_memory_allocated() - before, torch.cuda.max_memory_reserved())


def _train_gpt(
    trial: Trial, sizes: tuple[int, int, int, int], case: Case, tokens: int, vocabulary: int
) -> None:
    add_shared_code()
    import torch

    from wsshards.manifest import Tokenizer
    from wstrain_torch import data, models
    from wstrain_torch.models.layers import ModelOptions, recompute_blocks

    *shape, micro = sizes
    strategy, blocks, compiled = case
    task = data.make_task(
        "language_model", (tokens + 1,), "uint16", 0, tokenizer=Tokenizer("bpe", vocabulary)
    )
    with torch.device(trial.device):  # made there, as drawing weights on one core takes ten seconds
        model = models.build_model("gpt", task, ModelOptions(*shape), sample=None)
    if blocks == "blocks":
        recompute_blocks(model)
    inputs = torch.randint(0, vocabulary, (micro, tokens))
    _take_steps(trial, model, task, (inputs, inputs), strategy=strategy, optimizer="adamw", compiled=compiled)


def _take_steps(
    trial: Trial, model: Any, task: Any, batch: Any, *, strategy: str, optimizer: str, compiled: bool = False
) -> None:
    """Two steps of two micro-batches, by the component's strategy."""
    import torch

    from wstrain.launch.environment import Launch
    from wstrain.settings import OptimizerOptions
    from wstrain_torch import strategies
    from wstrain_torch.launch.process_group import Group
    from wstrain_torch.precision import Precision

    group = Group(Launch(0, 0, 1))
    precision = Precision("fp32" if trial.tiny else "bf16", group.device)
    if trial.tiny and compiled:
        compiled = False  # generating kernels takes longer than the rehearsal
    updates = strategies.UpdateSettings(
        OptimizerOptions(optimizer), precision, micro_batch=len(batch[0]), accumulation=2, compile=compiled
    )
    made = strategies.build_strategy(f"wstrain_ddp.{strategy}", model, updates, group)
    objective = strategies.Objective(task, precision)

    def batches() -> Iterator[Any]:
        while True:
            yield tuple(part.to(trial.device, non_blocking=True) for part in batch)

    for _ in range(2):
        made.gradients(strategies.MicroBatches(2, batches(), seed=lambda _: None), objective)
        made.update(1e-4)
    if trial.device == "cuda":
        torch.cuda.synchronize()


def _compare(
    trial: Trial,
    name: str,
    peak: Peak | None,
    planned: Document,
    measured: dict[str, Document],
    *,
    told: bool,
) -> None:
    """Compare a peak with the plan without its reserve, which is not torch's."""
    own = planned["total"] - planned["reserve"]
    allocated, reserved = peak or (None, None)
    ratio = own / allocated if allocated is not None and allocated > 0 else None
    measured[name] = {"planned": own, "measured": allocated, "reserved": reserved, "ratio": ratio}
    trial.keep(peaks=measured)
    if not told or allocated is None:
        return
    fits = planned["available"] is None or planned["total"] <= planned["available"]
    if ratio is None:
        trial.expect(not fits, f"{name} does not fit, but is planned to")
    else:
        shown = f"{own / 2**30:.2f} GiB planned, {allocated / 2**30:.2f} measured"
        trial.expect(abs(ratio - 1) <= NEAR, f"{name}: {shown}")


def _measure_resnet(trial: Trial, measured: dict[str, Document], *, told: bool) -> None:
    """A convolutional network of the user's, whose shapes the plan reads from its code."""
    add_shared_code()
    import torch

    from worldsize.planning.memory.estimate import SHARES, estimate
    from worldsize.planning.memory.network import Setup
    from worldsize.planning.memory.workload import Samples
    from worldsize.resolving.imported_model import import_model
    from wstrain_torch import data

    side, classes, count = (32, 10, 2) if trial.tiny else (224, 1000, PICTURES)
    shape = (3, side, side)
    folder = trial.work / "resnet"
    folder.mkdir()
    source = f"from typing import Any\n\n\n{inspect.getsource(build_resnet)}"
    (folder / "resnet.py").write_text(source, encoding="utf-8")
    network = import_model(folder, "resnet.py:build_resnet", Samples("classification", shape, classes))
    setup = Setup("ddp", micro_batch=count, accumulation=2, precision="fp32" if trial.tiny else "bf16")
    planned = estimate(network, setup)
    assert planned is not None
    task = data.make_task("classification", shape, "float32", classes)
    batch = (torch.randn(count, *shape), torch.randint(0, classes, (count,)))
    peak = _measure(
        trial, lambda: _take_steps(trial, build_resnet(classes), task, batch, strategy="ddp", optimizer="sgd")
    )
    memory = {share: getattr(planned, share) for share in SHARES}
    _compare(
        trial, "resnet50", peak, {**memory, "total": planned.total, "available": None}, measured, told=told
    )


def build_resnet(classes: int) -> Any:
    """Build a ResNet-50 (He et al. 2016), as a user's own file does."""
    import torch
    from torch import nn

    def convolve(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return [layer, nn.BatchNorm2d(outputs)]

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = 4 * width
            layers = [*convolve(inputs, width, 1), nn.ReLU(inplace=True)]
            layers += [
                *convolve(width, width, 3, stride),
                nn.ReLU(inplace=True),
                *convolve(width, outputs, 1),
            ]
            self.body = nn.Sequential(*layers)
            changes = stride > 1 or inputs != outputs
            self.short = nn.Sequential(*convolve(inputs, outputs, 1, stride)) if changes else nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(x) + self.short(x))

    layers: list[nn.Module] = [*convolve(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def check_out_of_memory(trial: Trial) -> None:
    """Four times the batch that fits: one sentence, and the batch that it proposes runs."""
    tokens = 32 if trial.tiny else 1024
    sizes = (1, 2, 32) if trial.tiny else MODELS["124M"][:3]
    shards = make_token_shards(trial)
    choices = [24] if trial.tiny else [16, 24, 32, 48, 64, 96, 128, 192, 256]
    steps = {f"micro_{4 * micro}": _describe((*sizes, 4 * micro), PLAIN[0], trial) for micro in choices}
    steps |= {f"micro_{micro}": _describe((*sizes, micro), PLAIN[0], trial) for micro in choices}
    plans = plan_steps(
        trial, {name: {**step, "accumulation": 1} for name, step in steps.items()}, tokens=tokens
    )
    fitting = [
        micro
        for micro in choices
        if plans[f"micro_{micro}"]["memory"]["total"] <= 0.9 * plans[f"micro_{micro}"]["memory"]["available"]
    ]
    micro = max(fitting)
    more = {"shards": shards, "stop_after_steps": 3, "validate_every_epochs": 0, "checkpoint_every_epochs": 0}
    inputs = {**plans[f"micro_{4 * micro}"]["inputs"], **more, "epochs": 100}
    limit = {"MEMORY_LIMIT": str(1700 << 20)} if trial.tiny else {}
    ended = train(trial, inputs, EXPORT="off", **limit)
    sentence = next((line for line in ended.said.splitlines() if line.startswith("error: ")), "")
    proposed = _BATCH.search(ended.said)
    trial.keep(fits=micro, tried=4 * micro, said_then=sentence)
    clear = ended.status == 2 and "out of memory" in sentence and "Traceback" not in ended.said
    trial.expect(clear, f"a batch of {4 * micro} ends with {ended.status}: {ended.said[-300:]}")
    trial.expect(proposed is not None, f"no batch is proposed: {ended.said[-300:]}")
    if proposed is None:
        return
    smaller = {"batch_size_per_device": int(proposed[1]), "gradient_accumulation_steps": int(proposed[2])}
    again = train(trial, {**inputs, **smaller}, EXPORT="off", **limit)
    trial.expect(again.status == 0, f"the proposed batch of {proposed[1]} does not fit: {again.said[-300:]}")
    trial.say(f"micro-batches of {4 * micro} do not fit, and it says so; the proposed {proposed[1]} run")

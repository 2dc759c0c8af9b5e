"""Checks 2, 3 and 11: strategies beside a plain loop, two processes on one GPU, adopted scripts."""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainings import (
    TINY_VOCABULARY,
    NotHereError,
    Trial,
    add_shared_code,
    find_free_port,
    make_token_shards,
    start_training,
    train,
    waiting_ranks,
)

STEPS = 20
SAME_FP32 = 1e-5  # relative, of the loss of each step; TF32 is off
SAME_GROUP = 1e-4  # of two ranks and one: sums in another order
SHARED_GPU = "warning: ranks 0 and 1 share one GPU"
SCRIPTS = ("argparse_digits", "mixed_precision", "gradient_accumulation")
# Inputs that only one component has.
OPTIONS = {
    "zero_stage": 0,
    "loss_scale": 0.0,
    "offload_optimizer": "none",
    "offload_parameters": "none",
    "offload_path": "",
    "ds_config": None,
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "ddp": {"module": "wstrain_ddp.ddp"},
    "fsdp": {"module": "wstrain_ddp.fsdp"},
    "fsdp, recomputed": {"module": "wstrain_ddp.fsdp", "recompute": True},
    "tensor": {"module": "wstrain_ddp.tensor_parallel"},
}
ZERO = {f"zero {stage}": {"module": "wstrain_deepspeed.strategy", "zero_stage": stage} for stage in range(4)}


class Setting:
    """A small language model, the micro-batches of every step, and a process group of one rank."""

    def __init__(self, trial: Trial) -> None:
        import torch
        import torch.distributed as dist

        add_shared_code()
        from wstrain.launch.environment import Launch
        from wstrain_torch import data
        from wstrain_torch.launch.process_group import Group

        self.device, self.steps = trial.device, 3 if trial.tiny else STEPS
        backend = "gloo" if trial.tiny else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
        self.group = Group(Launch(0, 0, 1))
        self.sizes, tokens, batch = ((2, 2, 32), 16, 2) if trial.tiny else ((4, 8, 512), 256, 8)
        self.task = data.make_task("language_model", (tokens + 1,), "uint8", 0)
        generator = torch.Generator().manual_seed(0)
        rows = torch.randint(0, 256, (self.steps, 2, batch, tokens + 1), generator=generator).to(trial.device)
        rows[..., 1::2] = rows[..., :-1:2]  # half of the tokens can be learned
        self.rows = rows

    def build(self, *, seed: int = 0, recompute: bool = False) -> Any:
        import torch

        from wstrain_torch import models
        from wstrain_torch.models.layers import ModelOptions, recompute_blocks

        torch.manual_seed(seed)
        model = models.build_model("gpt", self.task, ModelOptions(*self.sizes), sample=None)
        if recompute:
            recompute_blocks(model)
        return model

    def batches(self, step: int) -> Iterator[Any]:
        """Inputs and targets of each micro-batch."""
        for micro in self.rows[step]:
            yield micro[:, :-1].contiguous(), micro[:, 1:].contiguous()


def train_plainly(setting: Setting, precision: str, seed: int = 0) -> list[float]:
    """The peer: PyTorch's own optimizer and autocast, nothing of ours but the network."""
    import torch

    model = setting.build(seed=seed).to(setting.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    losses = []
    for step in range(setting.steps):
        total = torch.zeros((), device=setting.device)
        for inputs, targets in setting.batches(step):
            with torch.autocast(setting.device, dtype=torch.bfloat16, enabled=precision == "bf16"):
                scores = model(inputs).float().flatten(0, 1)
                loss = torch.nn.functional.cross_entropy(scores, targets.flatten()) / len(setting.rows[step])
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(total))
    return losses


def train_by_strategy(setting: Setting, precision: str, case: dict[str, Any]) -> list[float]:
    """The same steps by one of our strategies, on NCCL."""
    from wstrain.settings import OptimizerOptions
    from wstrain_torch import strategies
    from wstrain_torch.precision import Precision

    arithmetic = Precision(precision, setting.group.device)
    micro_batches = setting.rows.shape[1]
    updates = strategies.UpdateSettings(
        OptimizerOptions("adamw"),
        arithmetic,
        micro_batch=setting.rows.shape[2],
        accumulation=micro_batches,
        options={**OPTIONS, "zero_stage": case.get("zero_stage", 0)},
    )
    group = setting.group
    if case["module"].endswith(".ddp"):  # it wraps the model from two ranks on; NCCL's group has one
        group = setting.group.__class__.__new__(setting.group.__class__)
        vars(group).update(
            vars(setting.group), launch=dataclasses.replace(setting.group.launch, world_size=2)
        )
    model = setting.build(recompute=case.get("recompute", False))
    strategy = strategies.build_strategy(case["module"], model, updates, group)
    objective = strategies.Objective(setting.task, arithmetic)
    losses = []
    for step in range(setting.steps):
        batches = strategies.MicroBatches(micro_batches, setting.batches(step), seed=lambda _: None)
        loss = strategy.gradients(batches, objective)
        strategy.update(1e-3)
        losses.append(float(loss))
    return losses


def furthest(losses: list[float], others: list[float]) -> float:
    """The largest difference of a step's loss, relative to it."""
    return max(abs(own - other) / abs(other) for own, other in zip(losses, others, strict=True))


def check_strategies(trial: Trial) -> None:
    """In fp32 every loss is the plain loop's; in bf16 it is no further from it than another seed's."""
    import torch

    os.chdir(trial.work)  # DeepSpeed's configuration is written there
    warnings.simplefilter("ignore")
    setting = Setting(trial)
    trial.on_gpu("NCCL: the ranks are connected by gloo")
    cases = dict(STRATEGIES)
    if importlib.util.find_spec("deepspeed") is None:
        trial.result["not_here"].append("DeepSpeed is not installed")
    else:
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}  # it asks for these
        cases |= {name: ZERO[name] for name in (ZERO if not trial.tiny else ("zero 1", "zero 3"))}
    found: dict[str, dict[str, float]] = {name: {} for name in cases}
    for precision in ("fp32", "bf16"):
        plain = train_plainly(setting, precision)
        spread = furthest(train_plainly(setting, precision, seed=1), plain)
        most = SAME_FP32 if precision == "fp32" else spread
        trial.keep(**{f"spread_{precision}": spread, f"losses_{precision}": [plain[0], plain[-1]]})
        for name, case in cases.items():
            try:
                distance = furthest(train_by_strategy(setting, precision, case), plain)
            except Exception as error:
                trial.expect(False, f"{name} in {precision}: {type(error).__name__}: {str(error)[:200]}")
                continue
            found[name][precision] = distance
            trial.keep(distances=found)
            trial.expect(
                distance <= most, f"{name} in {precision} is {distance:.1e} from a plain loop, not {most:.1e}"
            )
            gc.collect()
            if trial.device == "cuda":
                torch.cuda.empty_cache()
    worst = {
        precision: max((each.get(precision, 0.0) for each in found.values()), default=0.0)
        for precision in ("fp32", "bf16")
    }
    trial.say(
        f"{', '.join(found)}: the losses are at most {worst['fp32']:.1e} from a plain loop's"
        f" in fp32, {worst['bf16']:.1e} in bf16, where another seed is {trial.result['spread_bf16']:.1e} away"
    )


def check_two_processes(trial: Trial) -> None:
    """Two ranks on one GPU, which NCCL refuses, say so and train by gloo as one process does."""
    inputs = {
        "model": "gpt",
        "gpt_layers": 2,
        "gpt_heads": 2,
        "gpt_width": 64,
        "optimizer": "adamw",
        "seed": 3,
    }
    inputs |= {
        "shards": make_token_shards(trial, tokens=32, vocabulary=TINY_VOCABULARY, rows=300),
        "validate_every_epochs": 0,
    }
    inputs |= {"learning_rate": 0.001, "stop_after_steps": 8, "epochs": 4, "checkpoint_every_epochs": 0}
    alone = inputs | {"batch_size_per_device": 4, "gradient_accumulation_steps": 2}
    shared = inputs | {"batch_size_per_device": 4, "gradient_accumulation_steps": 1}
    one = train(trial, alone, EXPORT="off").expect_status().losses
    started = start_training(trial, shared, ranks=2, EXPORT="off")
    with waiting_ranks(started):
        both = [each.wait(trial.left) for each in started]
    two = both[0].expect_status().losses
    distance = furthest(list(two.values()), list(one.values()))
    trial.keep(distance=distance)
    trial.expect(distance <= SAME_GROUP, f"two ranks over gloo are {distance:.1e} from one process")
    trial.say(f"two ranks on one device over gloo: each loss within {distance:.1e} of one process's")
    if trial.on_gpu("that NCCL refuses two ranks on one GPU"):
        trial.expect(SHARED_GPU in both[0].said, f"no sentence says that: {both[0].said.strip()[-300:]}")


def check_adopted(trial: Trial) -> None:
    """Adopted scripts on the GPU, in a group of one, beside the originals, by the recorder of proofs."""
    folder = Path(__file__).parents[1] / "adopt" / "scripts"
    if not folder.is_dir():
        raise NotHereError("the scripts of tests/adopt are not beside this folder")
    os.chdir(trial.work)
    scripts = [folder / f"{name}.py" for name in (SCRIPTS[:1] if trial.tiny else SCRIPTS)]
    with ThreadPoolExecutor() as pool:
        differences = list(pool.map(functools.partial(_prove_adopted, trial), scripts))
    done = [
        f"{script.stem} within {by:.1e}"
        for script, by in zip(scripts, differences, strict=True)
        if by is not None
    ]
    trial.say(f"adopted, each loss beside the original's on {trial.device}: {', '.join(done) or 'none'}")


def _prove_adopted(trial: Trial, script: Path) -> float | None:
    """The furthest that a step of an adopted script is from the original's; None after a fault."""
    from worldsize.adopting.adopt import adopt_script
    from worldsize.adopting.proving.curves import compare_curves, read_recording

    adoption = adopt_script(script)
    texts = {"adopted": adoption.text, "original": script.read_text(encoding="utf-8")}
    curves = {}
    replay: list[str] = []  # the original reads the samples in the order in which the adopted script has
    for side, text in texts.items():
        place = trial.work / f"{script.stem}-{side}"
        place.mkdir()
        (place / script.name).write_text(text, encoding="utf-8")
        said = _record(trial, place / script.name, adoption.profile, replay)
        replay = [str(place / "0.jsonl")]
        curves[side] = read_recording(place / "0.jsonl").losses
        if not curves[side]:
            trial.expect(False, f"the {side} {script.stem} takes no step: {said[-300:]}")
            return None
    compared = compare_curves(curves["original"], curves["adopted"], [], [])
    trial.expect(
        compared.verdict != "different" and len(curves["original"]) == len(curves["adopted"]),
        f"the adopted {script.stem} leaves the original's curve: {compared.first_outside}",
    )
    return compared.worst.difference


def _record(trial: Trial, script: Path, profile: Any, replay: list[str]) -> str:
    from worldsize.adopting.proving import prove

    settings = {"folder": str(script.parent), "steps": STEPS, "world_size": 1, "framework": profile.framework}
    settings |= {"module": profile.module, "replay": replay}
    env = {**os.environ, prove.SETTINGS: json.dumps(settings), "MPLBACKEND": "Agg"}
    env |= {"CUDA_VISIBLE_DEVICES": ""} if trial.device == "cpu" else {}
    if not replay:  # the adopted script, in a group of one
        group = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        env |= {**group, "MASTER_PORT": str(find_free_port())}
    done = subprocess.run(
        [sys.executable, str(prove.RECORDER), str(script)],
        cwd=script.parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=max(1.0, trial.left),
        check=False,
    )
    print(done.stdout, flush=True)
    return done.stdout

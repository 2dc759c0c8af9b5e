"""Checks 5, 6 and 10: tokens a second beside a hand-written loop, the predicted speed, and recompilations.

Ours is the component's own entry script; `loops.py` has the other. Both are processes on one GPU that take
turns of a second or two, so that whatever the card does hits both; who begins changes with each model.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from trainings import (
    LOOPS,
    TINY_TOKENS,
    TINY_VOCABULARY,
    TOKENS,
    Document,
    NotHereError,
    Trial,
    make_environment,
    make_token_shards,
    plan_steps,
    read_records,
    run_worldsize,
    start_training,
    train,
    waiting_ranks,
    write_flags,
)

WANTED = 0.97  # of the hand-written loop
LENGTH = 1024  # tokens of a row
# Layers, heads, width, micro-batch; the wanted share of the card's peak.
MODELS = {
    "124M": (12, 12, 768, 24, 0.32),
    "350M": (24, 16, 1024, 16, 0.38),
    "760M": (24, 16, 1536, 8, 0.42),
}
TINY = {"tiny": (2, 2, 32, 2, 0.0)}
ACCUMULATION = 4
WARM_TURNS, TURNS = 1, 4  # of each loop; a turn is a second or two
STRETCH = 1.0  # seconds
NEAR = 0.10  # of an estimate that was calibrated by what it estimates


def model_flops_utilisation(tokens_per_second: float, network: Document, peak: float) -> float:
    """The share of a GPU's peak that the model's own operations take.

    A token takes 6·N + 12·L·d·T floating-point operations forward and backward: N weights that are multiplied
    (those of the blocks and the head, not the embedding, which is looked up), L layers of width d, and rows
    of T tokens. Recomputation does not count (Chowdhery et al. 2022, "PaLM", appendix B). ``peak`` is that of
    the data sheet for dense bf16, see `compiler/worldsize/facts/gpus.csv`.
    """
    weights = network["parameters"] - network["vocabulary"] * network["width"]
    attention = 12 * network["layers"] * network["width"] * network["sequence_length"]
    return tokens_per_second * (6 * weights + attention) / peak


def check_speed(trial: Trial) -> None:
    """Ours over the hand-written loop is at least 0.97, and the share of the peak is what is wanted."""
    tokens, vocabulary = (TINY_TOKENS, TINY_VOCABULARY) if trial.tiny else (LENGTH, TOKENS)
    shards = make_token_shards(trial, tokens=tokens, vocabulary=vocabulary)
    models = TINY if trial.tiny else MODELS
    steps = {f"gpt_{name.lower()}": _describe_step(*sizes, tiny=trial.tiny) for name, sizes in models.items()}
    plans = plan_steps(trial, steps, tokens=tokens, vocabulary=vocabulary)
    trial.keep(measured=[], rows=[], ratios={}, utilisations={}, profiles={})
    for number, (name, sizes) in enumerate(models.items()):
        inputs = {**plans[f"gpt_{name.lower()}"]["inputs"], "shards": shards}
        seconds = trial.left / (len(models) - number)
        with _Pair(trial, inputs, tokens) as pair:
            speeds = pair.compare(seconds, ours_first=number % 2 == 1)
        _note_model(trial, name, pair, speeds, sizes=sizes, text=(tokens, vocabulary))


def _describe_step(layers: int, heads: int, width: int, micro: int, _: float, *, tiny: bool) -> Document:
    sizes = {"gpt_layers": layers, "gpt_heads": heads, "gpt_width": width}
    return {
        "model": "gpt",
        **sizes,
        "optimizer": "adamw",
        "precision": "fp32" if tiny else "bf16",
        "compile": not tiny,
        "micro": micro,
        "accumulation": ACCUMULATION,
        "epochs": 1000,
        "validate_every_epochs": 0,
        "checkpoint_every_epochs": 0,
    }


class _Pair:
    """Our training and the hand-written loop, both started at once: they compile side by side."""

    def __init__(self, trial: Trial, inputs: Document, tokens: int) -> None:
        self.inputs = inputs
        self._trial, self._tokens = trial, tokens
        self._pipes: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> _Pair:  # noqa: PYI034
        stretch = {"STRETCH": "0.2" if self._trial.tiny else str(STRETCH)}
        stretch["PROFILED_TURN"] = str(WARM_TURNS + TURNS + 1)  # the one after those that are compared
        self._stack = contextlib.ExitStack()
        ends, given = self._make_pipes()
        started = start_training(
            self._trial, self.inputs, pass_fds=given, TURNS=",".join(map(str, given)), EXPORT="off", **stretch
        )
        self._stack.enter_context(waiting_ranks(started))
        self.folder = started[0].folder
        self._pipes["ours"] = ends
        self._close(given)
        ends, given = self._make_pipes()
        env = make_environment(TURNS=",".join(map(str, given)), RECORD=str(self.folder / "hand"), **stretch)
        env |= {"CUDA_VISIBLE_DEVICES": ""} if self._trial.tiny else {}
        command = [sys.executable, str(LOOPS), "hand", self._trial.device, *write_flags(self.inputs)]
        with (self.folder / "said-hand").open("wb") as said:
            hand = subprocess.Popen(
                command, cwd=self.folder, env=env, stdout=said, stderr=said, pass_fds=given
            )
        self._stack.callback(hand.wait)
        self._stack.callback(hand.kill)
        self._pipes["hand"] = ends
        self._close(given)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for ends in self._pipes.values():
            self._close(ends)
        for name in ("said-0", "said-hand"):
            print((self.folder / name).read_text(encoding="utf-8", errors="replace")[-2000:], flush=True)

    @staticmethod
    def _make_pipes() -> tuple[tuple[int, int], tuple[int, int]]:
        """Our ends, to read and to write; theirs, likewise."""
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        return (read_here, write_here), (read_there, write_there)

    @staticmethod
    def _close(ends: tuple[int, int]) -> None:
        for end in ends:
            os.close(end)

    def compare(self, seconds: float, *, ours_first: bool) -> dict[str, list[float]]:
        """Let them take turns; tokens a second of each turn."""
        order = ["ours", "hand"] if ours_first else ["hand", "ours"]
        until = time.monotonic() + seconds
        for name in order:  # each has compiled, and has had its first turn
            self._await(name)
        turns: dict[str, list[float]] = {"ours": [], "hand": []}
        for turn in range(WARM_TURNS + TURNS):
            for name in order:
                before = self._count(name)
                os.write(self._pipes[name][1], b".")
                self._await(name)
                steps, trained = (after - old for after, old in zip(self._count(name), before, strict=True))
                turns[name].append(self.step_tokens * steps / trained)
            if turn > WARM_TURNS and time.monotonic() > until:
                break
        else:
            for name in order:
                os.write(self._pipes[name][1], b".")
                self._await(name)
        return {name: speeds[WARM_TURNS:] for name, speeds in turns.items()}

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step."""
        return int(self.inputs["global_batch_size"]) * self._tokens

    def _await(self, name: str) -> None:
        if not os.read(self._pipes[name][0], 1):
            said = (self.folder / ("said-0" if name == "ours" else "said-hand")).read_text(encoding="utf-8")
            raise RuntimeError(f"{name} ended: {said.strip()[-500:]}")

    def records(self, name: str) -> list[Document]:
        """What a loop has recorded so far."""
        return read_records(self.folder / ("record-0" if name == "ours" else "hand"))

    def _count(self, name: str) -> tuple[int, float]:
        """Steps and seconds of a loop so far."""
        windows = [each for each in self.records(name) if "steps" in each]
        return sum(each["steps"] for each in windows), sum(each["seconds"] for each in windows)


def _note_model(
    trial: Trial,
    name: str,
    pair: _Pair,
    speeds: dict[str, list[float]],
    *,
    sizes: tuple[Any, ...],
    text: tuple[int, int],
) -> None:
    layers, heads, width, _, wanted = sizes
    tokens, vocabulary = text
    parameters = next(each["parameters"] for each in pair.records("ours") if "parameters" in each)
    weights = next(each["weights"] for each in pair.records("hand") if "weights" in each)
    network = {"parameters": weights, "layers": layers, "width": width, "heads": heads}
    network |= {"vocabulary": vocabulary, "sequence_length": tokens, "tied_embeddings": False}
    ours, hand = (statistics.median(speeds[each]) for each in ("ours", "hand"))
    ratio = statistics.median(own / other for own, other in zip(speeds["ours"], speeds["hand"], strict=True))
    spread = statistics.stdev(map(math.log, speeds["ours"])) if len(speeds["ours"]) > 1 else 0.0
    result = trial.result
    result["ratios"][name] = round(ratio, 4)
    result["measured"].append(
        {
            "workload": network,
            "samples_per_second": ours / tokens,
            "deviation": spread / math.sqrt(len(speeds["ours"])),
            "parameters": {**parameters, "planned_gpus_per_instance": "0" if trial.tiny else "1"},
            "predicted": {
                end: pair.inputs.get(f"predicted_samples_per_second{end}") for end in ("", "_low", "_high")
            },
        }
    )
    share = _find_share(trial, ours, network)
    result["utilisations"][name] = share
    result["profiles"][name] = {
        loop: record for loop in speeds for record in pair.records(loop) if "busy" in record
    }
    shown = "" if share is None else f", {share:.1%} of the peak"
    trial.say(f"{name}: {ours:,.0f} tokens/s{shown}, {ratio:.3f} of the hand-written loop's {hand:,.0f}")
    for loop, profile in result["profiles"][name].items():
        trial.say(f"{name}, {loop}: kernels run {profile['busy']:.0%} of the time")
    if not trial.on_gpu(
        f"what is wanted of {name}: {WANTED} of the hand-written loop, {wanted:.0%} of the peak"
    ):
        return
    trial.expect(ratio >= WANTED, f"{name} is {ratio:.3f} of the hand-written loop, not {WANTED}")
    if share is not None:
        trial.expect(share >= wanted, f"{name} takes {share:.1%} of the peak, not {wanted:.0%}")
    result["rows"].append(_write_row(trial, name, ours, share, ratio))
    trial.keep()


def _find_share(trial: Trial, tokens_per_second: float, network: Document) -> float | None:
    from worldsize.facts import gpus

    machine = _read_machine(trial)
    gpu = gpus.lookup_product(machine.get("gpu", ""))
    return (
        None if gpu is None else model_flops_utilisation(tokens_per_second, network, gpu.peak_flops["bf16"])
    )


def _read_machine(trial: Trial) -> Document:
    if trial.device == "cpu":
        return {}
    import torch

    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}


def _write_row(trial: Trial, name: str, speed: float, share: float | None, ratio: float) -> str:
    machine = _read_machine(trial)
    predicted = trial.result["measured"][-1]["predicted"]
    tokens = trial.result["measured"][-1]["workload"]["sequence_length"]
    low, high = (float(predicted[end]) * tokens if predicted[end] else math.nan for end in ("_low", "_high"))
    day = time.strftime("%Y-%m-%d", time.gmtime())
    shown = "unknown" if share is None else f"{share:.1%}"
    cells = [day, machine["gpu"], f"torch {machine['torch']}", f"GPT {name}, bf16", f"{speed:,.0f}", shown]
    return f"| {' | '.join([*cells, f'{ratio:.3f}', f'{low:,.0f} to {high:,.0f}'])} |"


def check_prediction(trial: Trial) -> None:
    """Each measured speed lies in the interval of the plan; `estimate --from gpu.json` gives it back."""
    so_far = json.loads(trial.so_far.read_text(encoding="utf-8"))
    measured = so_far["checks"].get("speed", {}).get("measured") or []
    if not measured:
        raise NotHereError("the check `speed` has measured nothing")
    told = trial.on_gpu("whether a predicted speed is the measured one")
    for each in measured:
        speed = each["samples_per_second"]
        low, expected, high = (float(each["predicted"][end] or math.nan) for end in ("_low", "", "_high"))
        name = f"{each['workload']['parameters'] / 1e6:,.0f} million weights"
        if told:
            trial.expect(
                low <= speed <= high, f"{name}: {speed:.1f} samples/s are not in {low:.1f} to {high:.1f}"
            )
        trial.say(f"{name}: {speed:.1f} samples/s, predicted {expected:.1f} ({low:.1f} to {high:.1f})")
        _estimate_from(trial, each, speed)


def _estimate_from(trial: Trial, measured: Document, speed: float) -> None:
    """Ask `worldsize estimate` for what was measured, calibrated by the file of this run."""
    given = measured["parameters"]
    training = {"micro_batch": int(given["batch_size_per_device"]), "precision": given["precision"]}
    training |= {"accumulation": int(given["gradient_accumulation_steps"])}
    gpu = "H100"
    if trial.device == "cuda":
        from worldsize.facts import gpus

        found = gpus.lookup_product(given["device"])
        if found is None:
            trial.result["not_here"].append(f"no data sheet of `{given['device']}` is known")
            return
        gpu = found.name
    question = {"workload": {"kind": "transformer", **measured["workload"]}, "training": training}
    question["cluster"] = {"gpu": gpu, "gpus_per_instance": 1}
    file = trial.work / "estimate.yml"
    file.write_text(json.dumps(question), encoding="utf-8")
    words = ["estimate", file.name, "--json", "--from", str(trial.so_far)]
    if trial.tiny:
        said = run_worldsize(*words, folder=trial.work, status=1)
        trial.expect("ran without GPUs" in said, f"a rehearsal calibrates an estimate: {said[:300]}")
        return
    answer = json.loads(run_worldsize(*words, folder=trial.work))
    told = answer["samples_per_second"]["expected"]
    trial.expect(
        abs(told / speed - 1) <= NEAR,
        f"calibrated by this run, an estimate is {told:.1f} samples/s, not {speed:.1f}",
    )


def check_recompilations(trial: Trial) -> None:
    """After its first steps nothing more is compiled, with validations and a ragged last batch."""
    shards = make_token_shards(trial, tokens=256, vocabulary=TINY_VOCABULARY, rows=910)
    sizes = (2, 2, 32) if trial.tiny else (4, 8, 512)
    inputs = dict(zip(("gpt_layers", "gpt_heads", "gpt_width"), sizes, strict=True))
    stop = 12 if trial.tiny else 60
    inputs |= {"model": "gpt", "optimizer": "adamw", "learning_rate": 0.001, "compile": True, "epochs": 50}
    inputs |= {"batch_size_per_device": 8, "validate_every_epochs": 0, "validate_every_steps": stop // 3}
    inputs |= {"stop_after_steps": stop, "shards": shards, "precision": "fp32" if trial.tiny else "bf16"}
    ended = train(trial, inputs, EXPORT="off", **({"COMPILE": "eager"} if trial.tiny else {})).expect_status()
    graphs = {each["step"]: each["graphs"] for each in ended.records if "loss" in each and "graphs" in each}
    first = stop // 6
    again = graphs[stop] - graphs[first]
    breaks = ended.find("breaks")
    trial.keep(graphs=graphs[stop], again=again, breaks=breaks)
    trial.expect(graphs[stop] > 0, "`compile: true` has compiled nothing")
    trial.expect(again == 0, f"{again} graphs are compiled again between steps {first} and {stop}")
    trial.expect(breaks == 0, f"the graph breaks {breaks} times")
    trial.say(
        f"{graphs[stop]} graphs, {breaks} breaks, {again} compiled again between steps {first} and {stop}"
    )

"""Check 1: what this machine is, how near it comes to its data sheet, and how 8-bit floats are answered."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import statistics
from collections.abc import Callable
from typing import Any

from trainings import Trial, add_shared_code, run_worldsize, train

# With less than these shares of the data sheet the later figures are not those of a card that is well.
LEAST_FLOPS, LEAST_COPY = 0.758, 0.836  # 750 of 989 TFLOP/s and 2.8 of 3.35 TB/s on an H100
SPEC = """
name: eight_bits
compute: {gpu: {target: "azureml:gpu", instance_type: Standard_NC96ads_A100_v4}}
steps:
  shard: {uses: shard_data, compute: gpu}
  train: {uses: train_ddp, compute: gpu, with: {precision: fp8}}
"""
ESTIMATE = """
workload: {kind: transformer, parameters: 124e6, layers: 12, width: 768, heads: 12, vocabulary: 50304,
           sequence_length: 1024}
training: {micro_batch: 8, precision: fp8}
cluster: {gpu: GPU, gpus_per_instance: 1}
"""


def check_capabilities(trial: Trial) -> None:
    """Versions, NCCL, bf16 and fp8; a matrix product and a copy; precisions that are not offered."""
    trial.keep(machine=_describe_machine(trial))
    machine = trial.result["machine"]
    trial.say(f"{machine['gpu']}, torch {machine['torch']}, Python {machine['python']}")
    _measure_ceilings(trial)
    _refuse_precisions(trial)


def _describe_machine(trial: Trial) -> dict[str, Any]:
    import torch

    add_shared_code()
    found: dict[str, Any] = {"gpu": "cpu", "torch": torch.__version__, "python": platform.python_version()}
    found |= {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}
    for name in ("triton", "deepspeed", "transformers"):
        found[name] = importlib.metadata.version(name) if importlib.util.find_spec(name) else None
    if trial.on_gpu("the driver, NCCL and 8-bit products"):
        from wstrain.launch.gpus import query_driver

        memory = torch.cuda.get_device_properties(0).total_memory
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "memory_bytes": memory}
        found |= {"driver": query_driver().description, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        found |= {"capability": "{}.{}".format(*torch.cuda.get_device_capability())}
        found |= {"bf16": torch.cuda.is_bf16_supported(including_emulation=False), "fp8": _has_fp8()}
    return found


def _has_fp8() -> bool:
    """Whether this build of torch multiplies 8-bit floats on this card."""
    import torch

    one = torch.ones((), device="cuda")
    left = torch.ones(32, 32, device="cuda").to(torch.float8_e4m3fn)
    try:
        product = torch._scaled_mm(left, left.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    except (RuntimeError, TypeError):
        return False
    return bool((product == 32).all())


def _measure_ceilings(trial: Trial) -> None:
    import torch

    size = 256 if trial.tiny else 8192
    left, right = (torch.randn(size, size, device=trial.device, dtype=torch.bfloat16) for _ in range(2))
    flops = 2 * size**3 / _time(trial, lambda: left @ right)
    numbers = torch.randn(1 << (16 if trial.tiny else 30), device=trial.device)
    other = torch.empty_like(numbers)
    copied = 2 * 4 * numbers.numel() / _time(trial, lambda: other.copy_(numbers))  # read and written
    trial.keep(matmul_flops=flops, copy_bytes_per_s=copied)
    if not trial.on_gpu("the ceilings of matrix products and copies"):
        return
    trial.say(f"{flops / 1e12:.0f} TFLOP/s in bf16, {copied / 1e12:.2f} TB/s copied")
    free, size = torch.cuda.mem_get_info()
    context = size - free - torch.cuda.memory_reserved()  # nobody else uses the card now
    trial.say(f"the context and its kernels take {context / 1e9:.2f} GB", context_bytes=context)
    from worldsize.facts import gpus

    gpu = gpus.lookup_product(trial.result["machine"]["gpu"])
    if gpu is None:
        trial.say("no data sheet of this card is known, so nothing says whether that is what it should be")
        return
    shares = flops / gpu.peak_flops["bf16"], copied / gpu.memory_bytes_per_s
    trial.keep(comparable=shares[0] >= LEAST_FLOPS and shares[1] >= LEAST_COPY)
    trial.expect(
        trial.result["comparable"],
        f"{shares[0]:.0%} of the peak and {shares[1]:.0%} of the bandwidth of the data sheet:"
        " the speeds below are not comparable with others",
    )


def _time(trial: Trial, work: Callable[[], object]) -> float:
    """Seconds of a piece of work: the median of ten, after three."""
    import torch

    if trial.device == "cpu":
        import time

        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    seconds = []
    for _ in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1000)
    return statistics.median(seconds[3:])


def _refuse_precisions(trial: Trial) -> None:
    """`fp8` and `float8` are refused, with the precisions that there are; neither is taken for another."""
    for name in ("fp8", "float8"):
        ended = train(trial, {"shards": trial.work, "precision": name})
        refused = ended.status == 2 and f"'{name}'" in ended.said and "bf16" in ended.said
        trial.expect(refused, f"train_ddp does not refuse `precision: {name}`: {ended.said[-200:]}")
    spec = trial.work / "fp8"
    spec.mkdir()
    (spec / "spec.yml").write_text(SPEC, encoding="utf-8")
    told = run_worldsize("check", "spec.yml", folder=spec, status=1)
    trial.expect(
        "`fp8`" in told and "error[" in told, f"a spec with `precision: fp8` is not refused: {told[:300]}"
    )
    for gpu, status in (("A100-80GB", 1), ("H100", 0)):
        (spec / "estimate.yml").write_text(ESTIMATE.replace("GPU", gpu), encoding="utf-8")
        told = run_worldsize("estimate", "estimate.yml", folder=spec, status=status)
        trial.expect("fp8" in told or not status, f"an estimate of fp8 on {gpu}: {told[:300]}")
    trial.say("fp8 is refused by the trainer and the checker, and estimated only where a GPU has it")

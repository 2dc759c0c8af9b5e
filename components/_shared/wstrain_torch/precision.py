"""Mixed precision, after a check that the GPU or CPU has it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from wsshards.errors import UserError


def choose_precision(name: str, device: torch.device) -> str:
    """Return what ``auto`` means on a device, and any other name as it is."""
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" and _gpu_has_bf16() else "fp32"


class Precision:
    """The precision of the forward pass; parameters and their updates stay fp32.

    Args:
        name: ``fp32``, ``bf16`` or ``fp16``.
        device: where the model lives.

    Raises:
        UserError: the device has no such arithmetic.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "fp16" and device.type == "cpu" and not cpu_has_fp16():
            raise UserError(
                "precision `fp16` needs a GPU, or a CPU with half precision, which this one does not have",
                "use `fp32` or `bf16`; `worldsize run --set STEP.precision=fp32` does so for one run",
            )
        if name == "bf16" and device.type == "cuda" and not _gpu_has_bf16():
            raise UserError(
                f"precision `bf16` needs compute capability 8.0, more than `{_gpu(device)}` has",
                "use `fp16` or `fp32`",
            )
        self.name = name
        self._device = device.type
        # bf16 has fp32's exponent and needs no scaling; fp16 gradients would vanish (Micikevicius et al.
        # 2018).
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")
        if device.type == "cuda":
            # The loss of fp32 must equal that of one process to 1e-4. Beside a half precision, what stays in
            # fp32 may be TF32, and convolutions may take the kernel that is fastest for their one shape.
            torch.backends.cudnn.allow_tf32 = name != "fp32"
            torch.set_float32_matmul_precision("highest" if name == "fp32" else "high")
            torch.backends.cudnn.benchmark = (
                name != "fp32" and not torch.are_deterministic_algorithms_enabled()
            )

    def autocast(self) -> AbstractContextManager[object]:
        """Context of a forward pass and its loss."""
        if self.name == "fp32":
            return nullcontext()
        dtype = torch.bfloat16 if self.name == "bf16" else torch.float16
        return torch.autocast(self._device, dtype=dtype)


def _gpu_has_bf16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def cpu_has_fp16() -> bool:
    """Whether oneDNN, which computes for PyTorch on CPUs, has half precision here."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())  # noqa: SLF001 - DeepSpeed asks the same


def _gpu(device: torch.device) -> str:
    return torch.cuda.get_device_name(device)

"""Mixed precision, after a check that the GPU or CPU has it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from wsshards.errors import UserError


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
        if (
            name == "bf16"
            and device.type == "cuda"
            and not torch.cuda.is_bf16_supported(including_emulation=False)
        ):
            raise UserError(
                f"precision `bf16` needs compute capability 8.0, more than `{_gpu(device)}` has",
                "use `fp16` or `fp32`",
            )
        self.name = name
        self._device = device.type
        # bf16 has fp32's exponent and needs no scaling; fp16 gradients would vanish (Micikevicius et al.
        # 2018).
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")
        if name == "fp32" and device.type == "cuda":
            torch.backends.cudnn.allow_tf32 = False  # the loss must equal that of one process to 1e-4

    def autocast(self) -> AbstractContextManager[object]:
        """Context of a forward pass and its loss."""
        if self.name == "fp32":
            return nullcontext()
        dtype = torch.bfloat16 if self.name == "bf16" else torch.float16
        return torch.autocast(self._device, dtype=dtype)


def cpu_has_fp16() -> bool:
    """Whether oneDNN, which computes for PyTorch on CPUs, has half precision here."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())  # noqa: SLF001 - DeepSpeed asks the same


def _gpu(device: torch.device) -> str:
    return torch.cuda.get_device_name(device)

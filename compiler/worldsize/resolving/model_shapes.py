"""``python -m worldsize.resolving.model_shapes``: what a user's model weighs, without its weights.

The function is called with torch's meta device in place, so that nothing is allocated; but it is called: its
code runs. A forward pass on that device then tells what the backward pass would keep.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from wsshards.errors import UserError, run_main
from wstrain import user_code
from wstrain_torch import data as tasks
from wstrain_torch.models.layers import find_blocks

_FEW, _MORE = 1, 3  # samples of the two passes whose difference is what one sample keeps


def describe(reference: str, task: tasks.Task) -> dict[str, Any]:
    """Return names, shapes and kept numbers of the model that ``reference`` makes.

    Returns:
        ``parts``: first what surrounds the blocks, then each block, with ``weights`` as ``[name, shape,
        trained]``, ``kept`` as bytes a sample of fp32, and ``largest`` as those of the largest tensor among
        them; ``counted`` is false where the forward pass does not run on the meta device, so that these say
        nothing.

    Raises:
        UserError: no such file or function, or it fails.
    """
    with torch.device("meta"):
        model = user_code.call_for_model(user_code.load_function(reference), task, reference)
    if not isinstance(model, nn.Module):
        raise UserError(f"`{reference}` returned `{type(model).__name__}`, not a torch.nn.Module")
    model = model.to("meta")
    blocks = _blocks(model)
    kept = _kept(model, blocks, task)
    inside = [dict(block.named_parameters()) for block in blocks]
    owner = {id(p): number for number, named in enumerate(inside, start=1) for p in named.values()}
    parts: list[dict[str, Any]] = [{"weights": []} for _ in range(len(blocks) + 1)]
    for name, parameter in model.named_parameters():
        row = [name, list(parameter.shape), parameter.requires_grad]
        parts[owner.get(id(parameter), 0)]["weights"].append(row)
    for part, (bytes_, largest) in zip(parts, kept or [(0, 0)] * len(parts), strict=True):
        part |= {"kept": bytes_, "largest": largest}
    return {"parts": parts, "counted": kept is not None}


def _blocks(model: nn.Module) -> list[nn.Module]:
    try:
        return find_blocks(model, "sharding")
    except UserError:
        return []


def _kept(model: nn.Module, blocks: list[nn.Module], task: tasks.Task) -> list[tuple[int, int]] | None:
    """Bytes that a sample leaves for the backward pass, around the blocks and in each, and in one tensor."""
    try:
        few, more = (_saved(model.train(), blocks, task, samples) for samples in (_FEW, _MORE))
    except Exception:
        return None  # code that looks at values cannot run without them; the shapes are known all the same
    return [
        (max(0, sum(after) - sum(before)) // (_MORE - _FEW), max(after, default=0) // _MORE)
        for before, after in zip(few, more, strict=True)
    ]


def _saved(model: nn.Module, blocks: list[nn.Module], task: tasks.Task, samples: int) -> list[list[int]]:
    sizes: list[list[int]] = [[] for _ in range(len(blocks) + 1)]
    seen = {parameter.untyped_storage()._cdata for parameter in model.parameters()}  # noqa: SLF001
    keep: list[Tensor] = []
    with _within(blocks) as current:

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()._cdata  # noqa: SLF001 - meta storages have no address
            if storage not in seen:
                seen.add(storage)
                keep.append(tensor)  # so that no later tensor takes its place
                sizes[current()].append(tensor.untyped_storage().nbytes())
            return tensor

        targets = [samples, *task.input_shape] if task.name == "language_model" else [samples]
        with _fused_attention(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output = model(task.example(samples).to("meta"))
            task.loss(output, torch.zeros(targets, dtype=torch.int64, device="meta"))
    return sizes


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Keep of attention what the flash algorithm keeps: the meta device would store every score."""
    stored = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = _fuse
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = stored


_FUSED = "_scaled_dot_product_flash_attention_for_cpu"  # its shapes are those of any device
_OPTIONS = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")  # of attention, in order


def _fuse(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Tensor:
    options = {**dict(zip(_OPTIONS, rest, strict=False)), **named}
    if options.get("enable_gqa"):
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    kernel = getattr(torch.ops.aten, _FUSED)
    # Of dropout it keeps a few numbers of the generator's.
    shared = {name: options[name] for name in ("attn_mask", "scale") if name in options}
    result: Tensor = kernel(query, key, value, 0.0, bool(options.get("is_causal")), **shared)[0]
    return result


@contextmanager
def _within(blocks: list[nn.Module]) -> Iterator[Callable[[], int]]:
    """Know which block is running: its number from 1, or 0 between blocks."""
    running = [0]

    def enter(number: int) -> Callable[..., None]:
        return lambda *_: running.__setitem__(0, number)

    hooks = [block.register_forward_pre_hook(enter(n)) for n, block in enumerate(blocks, start=1)]
    hooks += [block.register_forward_hook(enter(0)) for block in blocks]
    try:
        yield lambda: running[0]
    finally:
        for hook in hooks:
            hook.remove()


def main() -> None:
    """Print the description of the model and task in the arguments, as JSON."""
    reference, name, shape, outputs = sys.argv[1:5]
    input_shape = tuple(json.loads(shape))
    stored = (input_shape[0] + 1,) if name == "language_model" else input_shape
    task = tasks.make_task(name, stored, "float32", int(outputs))
    # The user's code may print; what is wanted stands in the last line.
    sys.stdout.write(f"{json.dumps(describe(reference, task))}\n")


if __name__ == "__main__":
    run_main(main)

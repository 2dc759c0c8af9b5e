"""Pipeline parallelism: each rank holds some of the blocks, and micro-batches flow through all of them.

The micro-batches are those of gradient accumulation. With ``p`` stages and ``a`` micro-batches a rank idles
``(p − 1) / (a + p − 1)`` of a step (Huang et al. 2019, "GPipe"). ``gpipe`` runs all forward passes, then all
backward passes, and holds activations of all micro-batches; ``1f1b`` alternates and holds those of at most
``p`` (Narayanan et al. 2019, "PipeDream"). Gradients are the same. The layers of a stage may be divided over
the tensor dimension; stages are replicated over the data dimension, and gradients are averaged over it once
a step.

Random numbers are set anew for each micro-batch and stage, so those of all but the first stage are not the
numbers that one process draws: a dropout there follows the same distribution but another curve.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from wstrain_ddp import ddp
from wstrain_ddp.model_part import PIPELINE, TENSOR, ModelPart, make_device_mesh
from wstrain_ddp.pipeline_stage import SeededStage, Stage, keep_stage, partition_model
from wstrain_ddp.tensor_parallel import Plan, read_plan, report_misfits, split_tensors
from wstrain_torch.data import Batch
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import MicroBatches, Objective, Strategy, UpdateSettings, copy_without_weights

SCHEDULES: dict[str, type[PipelineScheduleSingle]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class PipelineParallel(ModelPart):
    """The strategy ``pipeline_parallel``.

    Raises:
        UserError: the model names no blocks, or fewer than stages, or no plan that a tensor degree needs.
    """

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        mesh = make_device_mesh(group)
        whole = copy_without_weights(model)
        degrees = group.mesh
        plan: Plan = read_plan(model, degrees.tensor) if degrees.tensor > 1 else {}
        self._stages, self._index = degrees.pipeline, degrees.stage(group.launch.rank)
        cut = partition_model(model, degrees.pipeline)
        split_tensors(keep_stage(model, cut, self._index), mesh[TENSOR], plan)
        stage = Stage(model, cut[self._index], updates.precision.autocast).to(group.device)
        super().__init__(model, whole, updates, mesh)
        self.model = stage
        self._line = mesh[PIPELINE].get_group()
        self._stage = SeededStage(stage, self._index, self._stages, group.device, group=self._line)
        self._schedule_type = SCHEDULES[updates.options["pipeline_schedule"]]
        self._schedule: PipelineScheduleSingle | None = None
        self._sent: tuple[torch.Size, torch.dtype] | None = None
        self._received: tuple[torch.Size, torch.dtype] | None = None

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Run all micro-batches through the stages; every stage returns the loss of the last one."""
        batches = [next(micro_batches.batches) for _ in range(micro_batches.count)]
        self._stage.seed = micro_batches.seed
        self._schedule = self._schedule or self._make_schedule(micro_batches.count, objective)
        with report_misfits():
            loss = self._run_schedule(self._schedule, batches)
        self._average_gradients()
        dist.broadcast(loss, group=self._line, group_src=self._stages - 1)
        return loss

    def predict(self, inputs: Tensor) -> Tensor | None:
        """Pass a block from stage to stage; only the last one has outputs, the others take the next block."""
        if self._index:
            inputs = self._receive_activation(inputs.device)
        outputs: Tensor = self.model(inputs)
        if self._index == self._stages - 1:
            return outputs.float()
        if self._sent is None:  # all blocks have one shape
            self._sent = (outputs.shape, outputs.dtype)
            dist.send_object_list([self._sent], group=self._line, group_dst=self._index + 1)
        dist.send(outputs.contiguous(), group=self._line, group_dst=self._index + 1)
        return None

    def _receive_activation(self, device: torch.device) -> Tensor:
        if self._received is None:
            shapes: list[tuple[torch.Size, torch.dtype] | None] = [None]
            dist.recv_object_list(shapes, group=self._line, group_src=self._index - 1)
            self._received = shapes[0]
        assert self._received is not None
        shape, dtype = self._received
        activation = torch.empty(shape, dtype=dtype, device=device)
        dist.recv(activation, group=self._line, group_src=self._index - 1)
        return activation

    def _run_schedule(self, schedule: PipelineScheduleSingle, batches: list[Batch]) -> Tensor:
        """Run a step; the first stage needs inputs, the last one targets, and only that one has the loss."""
        first = [torch.cat([inputs for inputs, _ in batches])] if self._index == 0 else []
        if self._index < self._stages - 1:
            schedule.step(*first, return_outputs=False)
            return torch.zeros((), device=batches[0][0].device)
        losses: list[Tensor] = []
        targets = torch.cat([targets for _, targets in batches])
        schedule.step(*first, target=targets, losses=losses, return_outputs=False)
        return torch.stack(losses).detach().sum()

    def _make_schedule(self, count: int, objective: Objective) -> PipelineScheduleSingle:
        def loss(output: Tensor, targets: Tensor) -> Tensor:
            return objective(nn.Identity(), output, targets) / count

        # Each loss is divided already, and exact sums need no scaling afterwards.
        return self._schedule_type(self._stage, count, loss_fn=loss, scale_grads=False)


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> Strategy:
    """Return the strategy around ``model``; a single process has nothing to cut."""
    if group.launch.world_size == 1:
        return ddp.build_strategy(model, updates, group)
    return PipelineParallel(model, updates, group)

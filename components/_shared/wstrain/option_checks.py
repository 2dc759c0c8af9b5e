"""Training options that do not go together, refused before the training starts."""

from __future__ import annotations

from wsshards.errors import UserError
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wstrain.class_weights import NONE, describe_weights
from wstrain.data.sample_spec import SampleSpec
from wstrain.hooks import Hooks
from wstrain.plan_inputs import COMPILED
from wstrain.settings import Settings

LAYER_WISE = ("lamb", "lars")  # optimizers that take the norm of each layer's weights
WHOLE_LAYERS = ("ddp", "horovod")  # strategies whose ranks hold whole layers and step the optimizer alike


def expect_options_fit(settings: Settings) -> None:
    """Check the options of a training against its strategy and each other.

    Raises:
        UserError: two of them do not go together.
    """
    strategy, optimizer = settings.strategy, settings.optimizer
    if optimizer in LAYER_WISE and strategy not in WHOLE_LAYERS:
        raise UserError(
            f"`optimizer: {optimizer}` needs the norm of whole layers, which a rank does not have"
            f" with `strategy: {strategy}`",
            "use the strategy `ddp` of train_ddp, or train_horovod, or another optimizer",
        )
    if optimizer in LAYER_WISE and settings.options.get("reduction") == "adasum":
        raise UserError(
            f"`optimizer: {optimizer}` needs averaged gradients, and `reduction: adasum` combines the steps",
            "use `reduction: average`, or another optimizer",
        )
    if settings.compile and strategy not in COMPILED:
        raise UserError(
            f"`compile` is not supported with `strategy: {strategy}`, which runs the layers itself",
            "use the strategy `ddp` or `fsdp` of train_ddp, or set `compile` to false",
        )
    if settings.ema_decay and strategy == "parameter_server":
        raise UserError(
            "`ema_decay` is not supported with `strategy: parameter_server`, where workers step on their own",
            "use `strategy: multi_worker_mirrored`, or set `ema_decay` to 0",
        )


def expect_task_fits(settings: Settings, samples: SampleSpec, hooks: Hooks | None) -> None:
    """Check the options of a training against what it learns.

    Raises:
        UserError: the task has no such option, or the user's own loss replaces it.
    """
    own_loss = hooks is not None and hooks.loss is not None
    for name, value, off in (
        ("label_smoothing", f"{settings.label_smoothing:g}", "0"),
        ("mixup_alpha", f"{settings.mixup_alpha:g}", "0"),
        ("class_weights", describe_weights(settings.class_weights), NONE),
    ):
        if value != off and own_loss:
            assert hooks is not None
            raise UserError(
                f"`{name}` is {value}, but `loss` in `{hooks.file}` replaces the loss that it changes",
                f"set `{name}` to {off}, or do it in your own `loss`",
            )
    if settings.class_weights != NONE and samples.name != CLASSIFICATION:
        said = f"`class_weights` is {describe_weights(settings.class_weights)}"
        raise UserError(
            f"{said}, but in the task {samples.name} a row does not have one class",
            "set `class_weights` to none",
        )
    if settings.label_smoothing and samples.name not in (CLASSIFICATION, LANGUAGE_MODEL):
        raise UserError(
            f"`label_smoothing` is {settings.label_smoothing:g}, but the task {samples.name} has no"
            " cross-entropy over classes",
            "set `label_smoothing` to 0",
        )
    if settings.mixup_alpha and samples.reads_tokens:
        raise UserError(
            f"`mixup_alpha` is {settings.mixup_alpha:g}, but the samples are tokens, which have no mean",
            "set `mixup_alpha` to 0",
        )
    if hooks is not None and hooks.metrics is not None and samples.name == LANGUAGE_MODEL:
        raise UserError(
            f"`metrics` in `{hooks.file}` would get the scores of every token of the validation split",
            "remove it: the metrics of a language model are loss, perplexity and accuracy",
        )

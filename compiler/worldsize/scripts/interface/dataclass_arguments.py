"""The interface that `HfArgumentParser` of transformers makes of dataclasses."""

from __future__ import annotations

import ast

from worldsize.scripts.definitions import ClassPlace, find_class_named
from worldsize.scripts.interface.annotations import read_annotation
from worldsize.scripts.interface.argparse import read_option
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.module import (
    Module,
    constant_value,
    find_mentions,
    find_passed,
    keyword_argument,
    last_name,
    name_variable,
)
from worldsize.scripts.reached import Reached
from worldsize.scripts.values import open_variable

_PARSES = ("parse_args_into_dataclasses", "parse_args", "parse_known_args")
_FILES = ("parse_json_file", "parse_yaml_file", "parse_dict")
_PLAIN = frozenset({None, "return_remaining_strings", "look_for_args_file"})
_FIELDS = ("field", "HfArg")


def read_dataclass_arguments(reached: Reached) -> Interface | None:
    """The interface of the only `HfArgumentParser`; None if there is not exactly one."""
    made = reached.called("transformers.HfArgumentParser")
    parses = [parse for parse in reached.called(*_PARSES) if reached.runs(*parse)]
    if len(made) != 1 or not parses or not reached.surely_runs(*made[0]):
        return None
    module, call = made[0]
    interface = Interface(reads_files=any(other.called(*_FILES) for other in reached.modules))
    for other, parse in parses:
        if parse.args or {one.arg for one in parse.keywords} - _PLAIN:
            return None
        if not (interface.reads_files or reached.surely_runs(other, parse)):
            return None
        rest = constant_value(keyword_argument(parse, "return_remaining_strings"))
        keeps_others = isinstance(parse.func, ast.Attribute) and parse.func.attr == "parse_known_args"
        interface.ignores_others |= keeps_others or rest not in (None, False)
    classes = find_passed(call, 0, "dataclass_types")
    listed = open_variable(module, classes)
    types = listed.elts if isinstance(listed, ast.List | ast.Tuple) else [classes]
    for node in types:
        interface.closed &= _add_class(reached, interface, module, node)
    interface.closed &= len(call.keywords) <= (not call.args)
    _add_others(reached, interface, module, call)
    interface.options.append(Option(("-h", "--help"), "help", module, call, 0, 0))
    return interface


def _add_class(
    reached: Reached, interface: Interface, module: Module, node: ast.AST | None, depth: int = 7
) -> bool:
    """Add the fields of the class that a name means; False if not all are known."""
    class_ = find_class_named(reached, module, node)
    if class_ is None and node is not None and module.name_of(node) in _CLASSES:
        interface.options += _list_training_arguments(module, node)
        interface.certain = False
        return True
    return class_ is not None and depth > 0 and _add_fields(reached, interface, class_, depth - 1)


def _add_others(reached: Reached, interface: Interface, module: Module, maker: ast.Call) -> None:
    """Read the arguments that are added to the parser itself, if it is a variable."""
    made = module.parents.get(maker)
    names = {name_variable(target) for target in made.targets} if isinstance(made, ast.Assign) else set()
    for other, call in reached.called("add_argument", "add_argument_group"):
        if not reached.runs(other, call):
            continue
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        named = owner is not None and name_variable(owner) in names
        if other is module and named and last_name(call) == "add_argument":
            read_option(reached, interface, module, call, sure=reached.surely_runs(module, call))
        else:
            interface.closed = False


def _add_fields(reached: Reached, interface: Interface, class_: ClassPlace, depth: int) -> bool:
    """Add the fields of a dataclass and of its bases; False if not all are known."""
    module, node = class_
    decorators = [getattr(decorator, "func", decorator) for decorator in node.decorator_list]
    is_complete = any(module.name_of(decorator).rpartition(".")[2] == "dataclass" for decorator in decorators)
    for base in node.bases:
        is_complete &= _add_class(reached, interface, module, base, depth)
    inherited = list(interface.options) if node.bases else []
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            option = _read_field(reached, module, statement, statement.target.id)
            for again in [one for one in inherited if one.name == statement.target.id]:
                interface.options.remove(again)
            if option is not None:
                interface.options.append(option)
    return is_complete


def _read_field(reached: Reached, module: Module, node: ast.AnnAssign, name: str) -> Option | None:
    if any("ClassVar" in word for word in find_mentions(node.annotation)):
        return None
    annotation = read_annotation(reached, module, node.annotation)
    default, more = node.value, False
    option = Option(_spell(f"--{name}"), name, module, node)
    if isinstance(default, ast.Call) and module.name_of(default.func).rpartition(".")[2] in _FIELDS:
        if constant_value(keyword_argument(default, "init")) is False:
            return None
        parts = list(ast.walk(default))
        if any("aliases" in (getattr(inner, "arg", ""), constant_value(inner)) for inner in parts):
            return Option(option.flags, name, module, node, 0, None)
        more = any(one.arg in ("default_factory", None) for one in default.keywords)
        default = keyword_argument(default, "default")
    annotation.describe(option)
    if annotation.boolean:
        option.least = 0
        if constant_value(default) is True and not annotation.optional:
            option.flags += _spell(f"--no_{name}")
        return option
    if annotation.many:
        option.most = None
    option.required = default is None and not more
    return option


def _spell(flag: str) -> tuple[str, ...]:
    """A flag, also with hyphens."""
    hyphened = "--" + flag[2:].replace("_", "-")
    return (flag,) if flag == hyphened else (flag, hyphened)


_CLASSES = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")


_BOOLEANS = """
adafactor auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 bf16_full_eval
dataloader_drop_last dataloader_in_order dataloader_persistent_workers dataloader_pin_memory
ddp_broadcast_buffers ddp_find_unused_parameters ddp_static_graph disable_tqdm do_eval do_predict do_train
enable_jit_checkpoint eval_do_concat_batches eval_on_start eval_use_gather_object
evaluate_during_training fp16 fp16_full_eval full_determinism activation_checkpointing
gradient_checkpointing greater_is_better group_by_length
hub_always_push hub_private_repo ignore_data_skip include_inputs_for_metrics include_tokens_per_second
jit_mode_eval load_best_model_at_end log_on_each_node logging_first_step logging_nan_inf_filter model_parallel
no_cuda overwrite_output_dir predict_with_generate prediction_loss_only push_to_hub remove_unused_columns
restore_callback_states_from_checkpoint save_on_each_node save_only_model save_safetensors skip_memory_metrics
sortish_sampler split_batches dispatch_batches tf32 torch_compile tpu_metrics_debug use_cache use_cpu use_ipex
use_legacy_prediction_loop use_liger_kernel use_mps_device
"""


_INTEGERS = """
_n_gpu data_seed dataloader_num_workers dataloader_prefetch_factor ddp_bucket_cap_mb ddp_timeout
eval_accumulation_steps fsdp_min_num_params generation_max_length generation_num_beams
gradient_accumulation_steps local_rank max_steps past_index per_device_eval_batch_size
per_device_train_batch_size per_gpu_eval_batch_size per_gpu_train_batch_size save_total_limit seed
torch_empty_cache_steps tp_size tpu_num_cores
"""


_NUMBERS = """
adam_beta1 adam_beta2 adam_epsilon eval_delay eval_steps label_smoothing_factor learning_rate logging_steps
max_grad_norm neftune_noise_alpha num_train_epochs save_steps warmup_ratio warmup_steps weight_decay
"""


_TEXTS = """
accelerator_config activation_checkpointing_kwargs dataloader_multiprocessing_context ddp_backend debug
deepspeed fp16_backend fp16_opt_level fsdp fsdp_config fsdp_transformer_layer_cls_to_wrap generation_config
gradient_checkpointing_kwargs half_precision_backend hub_model_id hub_revision hub_strategy hub_token
include_for_metrics include_num_input_tokens_seen label_names length_column_name liger_kernel_config log_level
log_level_replica logging_dir lr_scheduler_kwargs metric_for_best_model mp_parameters optim optim_args
optim_target_modules output_dir parallelism_config project push_to_hub_model_id push_to_hub_organization
push_to_hub_token ray_scope report_to resume_from_checkpoint run_name sharded_ddp torch_compile_backend
torch_compile_mode torchdynamo trackio_bucket_id trackio_space_id trackio_static_space_id
train_sampling_strategy xpu_backend evaluation_strategy eval_strategy logging_strategy save_strategy
lr_scheduler_type
"""


_STRATEGY = ("no", "steps", "epoch")


_CHOICES = {
    "evaluation_strategy": _STRATEGY,
    "eval_strategy": _STRATEGY,
    "logging_strategy": _STRATEGY,
    "save_strategy": (*_STRATEGY, "best"),
    "lr_scheduler_type": (
        *("linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup"),
        *("inverse_sqrt", "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr"),
        *("warmup_stable_decay", "greedy"),
    ),
}


def _list_training_arguments(module: Module, node: ast.AST) -> list[Option]:
    """An option for each field; ``node`` is the place that names the class."""
    options: list[Option] = []
    for kind, names in ((bool, _BOOLEANS), (int, _INTEGERS), (float, _NUMBERS), (str, _TEXTS)):
        for name in names.split():
            option = Option(_spell(f"--{name}"), name, module, node)
            if kind is bool:
                option.least = 0
                option.flags += _spell(f"--no_{name}")
            elif kind is str:
                option.most = 1 if name in _CHOICES else None  # some of the others take several words
                option.choices = _CHOICES.get(name)
            else:
                option.kind = int if kind is int else float
            options.append(option)
    return options

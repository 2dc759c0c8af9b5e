"""The fields of `TrainingArguments` of transformers, as arguments of a command.

Read from its versions 4.20 to 5.23, with names of older ones: a name that is not here is in none of them.
"""

from __future__ import annotations

import ast

from worldsize.scripts.interface.model import Option
from worldsize.scripts.module import Module

CLASSES = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
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


def list_training_arguments(module: Module, node: ast.AST) -> list[Option]:
    """An option for each field; ``node`` is the place that names the class."""
    options: list[Option] = []
    for kind, names in ((bool, _BOOLEANS), (int, _INTEGERS), (float, _NUMBERS), (str, _TEXTS)):
        for name in names.split():
            flags = (f"--{name}", "--" + name.replace("_", "-"))
            option = Option(tuple(dict.fromkeys(flags)), name, module, node)
            if kind is bool:
                option.least = 0
                option.flags += (f"--no_{name}", "--no-" + name.replace("_", "-"))
            elif kind is str:
                option.most = 1 if name in _CHOICES else None  # some of the others take several words
                option.choices = _CHOICES.get(name)
            else:
                option.kind = int if kind is int else float
            options.append(option)
    return options

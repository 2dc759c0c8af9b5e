"""Settings of Lightning, Accelerate and Hugging Face that contradict each other, or the job."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.command_line import Word
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem, Related, relate
from worldsize.base.span import Span
from worldsize.base.wording import plural
from worldsize.documents.yaml import json_text
from worldsize.documents.yaml.nodes import Mapping, Scalar, find_node
from worldsize.scripts.edits import add_argument
from worldsize.scripts.interface.read import read_interface, read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.settings import find_place, read_number, read_value

_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_KINDS = ("Trainer", "Fabric")


def check_lightning_counts_disagree(context: Tree, program: Program) -> Iterator[Finding]:
    expected = _count_expected(program)
    if expected is None or not program.imports(*_LIGHTNING):
        return
    for module in program.modules:
        for name, call in module.calls:
            is_trainer = name.rpartition(".")[2] in _KINDS and name.partition(".")[0] in _LIGHTNING
            if is_trainer and _reads_ranks(module, call) and read_reached(program).runs(module, call):
                yield from _judge_nodes(program, module, call, expected[1])
                yield from _judge_devices(program, module, call, expected[0])


def _reads_ranks(module: Module, call: ast.Call) -> bool:
    """Whether Lightning reads the ranks of the launcher, and no other plugin of a cluster decides."""
    node = keyword_argument(call, "plugins")
    plugins = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return node is None or all(
        isinstance(plugin, ast.Call)
        and (module.name_of(plugin.func) or "").rpartition(".")[2]
        in ("LightningEnvironment", "TorchElasticEnvironment")
        for plugin in plugins
    )


def _count_expected(program: Program) -> tuple[int | None, int | None] | None:
    """The processes of an instance and the instances, None where unknown."""
    launch, inner = program.launch, program.inner
    instances = launch.instances.value
    if inner is not None:
        return (
            (inner.starts, instances) if program.kind == "pytorch" and launch.processes.value == 1 else None
        )
    if launch.kind == "pytorch":  # in one process of an instance Lightning starts the others itself
        return launch.processes.value if launch.processes.value != 1 else None, instances
    return (None, instances) if launch.kind is None and instances == 1 else None


def _judge_nodes(
    program: Program, module: Module, call: ast.Call, instances: int | None
) -> Iterator[Finding]:
    node = keyword_argument(call, "num_nodes")
    if instances is None or (node is None and any(one.arg is None for one in call.keywords)):
        return
    count = read_number(program, module, node) if node is not None else 1
    if count is None or count == instances:
        return
    written = f"`num_nodes` is {count}{'' if node is not None else ' by default'}"
    message = f"{written}, but the job has {plural(instances, 'instance')}"
    related = (*relate(program.launch.instances.span, plural(instances, "instance")), *program.related)
    span = find_place(program, module, node) if node is not None else module.span(call.func)
    fix = _write(module, call, node, f"num_nodes={instances}")
    yield Finding(span, message, f"write `num_nodes={instances}`", related=related, fix=fix)


def _write(module: Module, call: ast.Call, node: ast.expr | None, argument: str) -> Fix | None:
    """Edit a number that is written in the call, or add the argument."""
    if node is None:
        return add_argument(module, call, argument) if call.args or call.keywords else None
    number = argument.partition("=")[2]
    is_number = isinstance(node, ast.Constant) and type(node.value) is int
    return Fix(module.full_span(node), number, safe=False) if is_number else None


def _judge_devices(
    program: Program, module: Module, call: ast.Call, processes: int | None
) -> Iterator[Finding]:
    launch = program.launch
    node = keyword_argument(call, "devices") or keyword_argument(call, "gpus")
    count = len(node.elts) if isinstance(node, ast.List) else read_number(program, module, node)
    if isinstance(constant_value(node), str) or node is None or count is None or count < 1:
        return
    if processes is None:
        size = launch.size
        if (
            size is None
            or not 0 < size.devices < count
            or constant_value(keyword_argument(call, "accelerator")) == "cpu"
        ):
            return
        message = f"`devices` is {count}, but `{size.name}` has {plural(size.devices, 'GPU')}"
        related = relate(launch.size_span, "the size")
        help_ = f"write `devices={size.devices}`"
    elif count != processes:
        message = f"`devices` is {count}, but {plural(processes, 'process')} start on each instance"
        related = relate(launch.processes.span or launch.kind_span, plural(processes, "process"))
        help_ = f"write `devices={processes}`"
        if program.inner is None:
            help_ += f", or `process_count_per_instance: {count}`"
    else:
        return
    fix = _write(module, call, node, help_.split("`")[1])
    yield Finding(
        find_place(program, module, node), message, help_, related=(*related, *program.related), fix=fix
    )


_ADD_ADDRESS = "add `--main_process_ip $MASTER_ADDR` to the command"
_LOCAL = ("localhost", "127.0.0.1")


def check_accelerate_config_disagrees(context: Tree, program: Program) -> Iterator[Finding | Problem]:
    yield from _judge_file(context, program)
    config = read_accelerate_config(context, program)
    instances = program.launch.instances.value
    if config is None or instances is None or program.inner is None:
        return
    flags = program.inner.options
    machines, processes = (_number(config, name) for name in ("num_machines", "num_processes"))
    if machines is not None and machines != instances and "num_machines" not in flags:
        message = f"`num_machines` is {machines}, but the job has {plural(instances, 'instance')}"
        yield _report_config(program, config, "num_machines", message, f"write {instances}")
        return
    devices = program.launch.size.devices if program.launch.size is not None else 0
    total = instances * devices
    if processes is not None and devices and "num_processes" not in flags and processes != total:
        gpus = f"{plural(total, 'GPU')} on {plural(instances, 'instance')}"
        message = f"`num_processes` is {processes}, but the job has {gpus}"
        help_ = f"write {total}, the processes of all machines"
        finding = _report_config(program, config, "num_processes", message, help_)
        yield finding if processes > total else finding.under("processes-below-gpus")
    if instances < 2:
        return
    rank = _number(config, "machine_rank")
    if rank is not None and "machine_rank" not in flags:
        message = f"`machine_rank` is {rank} on each of the {instances} instances"
        help_ = "add `--machine_rank $NODE_RANK` to the command"
        yield _report_config(program, config, "machine_rank", message, help_)
    address = config.get("main_process_ip")
    if address is None and "main_process_ip" not in flags and "rdzv_backend" not in flags:
        span = program.launch.span(program.inner.word)
        message = f"no `main_process_ip`, in the command or its file: {instances} machines never meet"
        if span is not None:
            yield Finding(span, message, _ADD_ADDRESS)
    if isinstance(address, Scalar) and address.value in _LOCAL and "main_process_ip" not in flags:
        message = (
            f"`main_process_ip` is `{address.value}` on each of the {instances} instances, so they never meet"
        )
        yield _report_config(program, config, "main_process_ip", message, _ADD_ADDRESS)


def _judge_file(context: Tree, program: Program) -> Iterator[Finding]:
    """Report a configuration file that is not in the code."""
    folder, value = program.launch.code_folder, _find_config_word(program)
    if folder is None or value is None or value.bare.startswith("~") or not context.is_folder(folder):
        return
    span = program.launch.span(value)
    if span is not None and not context.exists(Path(folder, value.bare)):
        message = f"there is no `{value.bare}` in the code of the step"
        yield Finding(span, message, "name a file relative to the folder of the code")


def read_accelerate_config(context: Tree, program: Program) -> Mapping | None:
    """The configuration file that the command names."""
    folder, value = program.launch.code_folder, _find_config_word(program)
    if folder is None or value is None:
        return None
    path = Path(folder, value.bare)
    if context.text(path) is None or path.suffix not in (".yaml", ".yml"):
        return None
    root = context.document(path).root
    return root if isinstance(root, Mapping) else None


def _find_config_word(program: Program) -> Word | None:
    """The word of the command with the path of the file in the code."""
    inner = program.inner
    if inner is None or inner.name != "accelerate launch":
        return None
    _, value = inner.options.get("config_file", (None, None))
    return None if value is None or "$" in value.bare or value.bare.startswith("/") else value


def _number(config: Mapping, name: str) -> int | None:
    node = config.get(name)
    return node.value if isinstance(node, Scalar) and type(node.value) is int else None


def _report_config(program: Program, config: Mapping, name: str, message: str, help_: str) -> Finding:
    node = config.get(name)
    span: Span = node.span if node is not None else config.span
    return Finding(span, message, help_, related=program.related)


_PACKAGES = ("transformers", "trl", "optimum", "sentence_transformers", "setfit")
# Where the configuration says what an argument says too, with the default of the argument.
_SAME: tuple[tuple[str, str, object], ...] = (
    ("train_micro_batch_size_per_gpu", "per_device_train_batch_size", 8),
    ("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
    ("gradient_clipping", "max_grad_norm", 1.0),
    ("optimizer.params.lr", "learning_rate", 5e-5),
    ("optimizer.params.weight_decay", "weight_decay", 0.0),
    ("scheduler.params.warmup_max_lr", "learning_rate", 5e-5),
    ("scheduler.params.warmup_num_steps", "warmup_steps", 0),
    ("fp16.enabled", "fp16", False),
    ("bf16.enabled", "bf16", False),
)
_TRUE = ("true", "t", "yes", "y", "1")
_STRATEGIES = frozenset({"no", "steps", "epoch"})


def check_trainer_arguments_disagree(context: Tree, program: Program) -> Iterator[Finding]:
    if not program.imports(*_PACKAGES):
        return
    yield from _judge_command(program)
    for module in program.modules:
        for name, call in module.calls:
            last = name.rpartition(".")[2]
            is_arguments = name.partition(".")[0] in _PACKAGES and last.endswith(
                ("TrainingArguments", "SFTConfig")
            )
            if is_arguments and read_reached(program).runs(module, call):
                yield from _judge_precisions(program, module, call)
                yield from _judge_best(program, module, call)
                yield from _judge_config(context, program, module, call)


def _judge_command(program: Program) -> Iterator[Finding]:
    """The same in the words that the command gives to `HfArgumentParser`."""
    interface = read_interface(program)
    if interface is None or not any(option.name == "fp16_full_eval" for option in interface.options):
        return
    flags = {flag.name: flag for flag in program.command.flags()}
    texts = {name: flag.value.bare if flag.value is not None else "true" for name, flag in flags.items()}
    true = {name for name, text in texts.items() if text.lower() in _TRUE}
    span = program.launch.span(flags["bf16"].word) if {"fp16", "bf16"} <= true else None
    if span is not None:
        message = "`--fp16` and `--bf16` are both given, and `TrainingArguments` takes one of them"
        yield Finding(span, message, "remove one of them", related=program.related)
    evaluates, saves = (
        texts.get("eval_strategy", texts.get("evaluation_strategy")),
        texts.get("save_strategy"),
    )
    if "load_best_model_at_end" not in true or evaluates == saves or not {evaluates, saves} < _STRATEGIES:
        return
    span = program.launch.span(flags["save_strategy"].word)
    if span is not None:
        message = (
            f"the model is saved by `{saves}` and evaluated by `{evaluates}`: the best one cannot be known"
        )
        help_ = f"write `--save_strategy {evaluates}`, or leave out `--load_best_model_at_end`"
        yield Finding(span, message, help_, related=program.related)


def _judge_precisions(program: Program, module: Module, call: ast.Call) -> Iterator[Finding]:
    half, brain = keyword_argument(call, "fp16"), keyword_argument(call, "bf16")
    if half is not None and brain is not None and constant_value(half) is constant_value(brain) is True:
        message = "`fp16` and `bf16` are both true, but `TrainingArguments` takes only one of them"
        related = (Related(module.span(half), "the other"), *program.related)
        yield Finding(module.span(brain), message, "remove one of them", related=related)


def _judge_best(program: Program, module: Module, call: ast.Call) -> Iterator[Finding]:
    """The best model is kept only if the trainer saves when it evaluates."""
    best = keyword_argument(call, "load_best_model_at_end")
    if read_value(program, module, best) is not True or any(one.arg is None for one in call.keywords):
        return
    evaluates = keyword_argument(call, "eval_strategy") or keyword_argument(call, "evaluation_strategy")
    saves = keyword_argument(call, "save_strategy")
    when = "no" if evaluates is None else read_value(program, module, evaluates)
    kept = "steps" if saves is None else read_value(program, module, saves)
    if not isinstance(when, str) or not isinstance(kept, str) or kept == "best":
        return
    place = saves or evaluates or best
    assert place is not None
    related = (Related(module.span(best or place), "needs both to agree"), *program.related)
    if when != kept:
        message = f"`save_strategy` is `{kept}`, but `eval_strategy` is `{when}`: the best model is not known"
        wanted = f'save_strategy="{when}"' if when != "no" else f'eval_strategy="{kept}"'
        yield Finding(module.span(place), message, f"write `{wanted}`", related=related)
        return
    steps = [keyword_argument(call, name) for name in ("save_steps", "eval_steps")]
    numbers = [read_number(program, module, node) for node in steps]
    if when == "steps" and numbers[0] and numbers[1] and numbers[0] % numbers[1]:
        message = f"`save_steps` is {numbers[0]}, which is not a multiple of `eval_steps` {numbers[1]}"
        nearest = numbers[0] // numbers[1] * numbers[1] or numbers[1]
        yield Finding(module.span(steps[0] or place), message, f"write {nearest}", related=related)


# What keeps a trainer off the GPUs.
_SWITCHES: tuple[tuple[str, object], ...] = (("accelerator", "cpu"), ("use_cpu", True), ("no_cuda", True))


def check_gpu_switched_off(context: Tree, program: Program) -> Iterator[Finding]:
    size = program.launch.size
    if size is None or not size.devices or not program.imports(*_LIGHTNING, *_PACKAGES):
        return
    for module in program.modules:
        for name, call in module.calls:
            if name.partition(".")[0] not in (*_LIGHTNING, *_PACKAGES):
                continue
            for keyword, off in _SWITCHES:
                node = keyword_argument(call, keyword)
                value = read_value(program, module, node) if node is not None else None
                if node is None or value != off or type(value) is not type(off):
                    continue
                gpus = plural(size.devices, "GPU")
                written = f'{keyword}="{off}"' if isinstance(off, str) else f"{keyword}={off}"
                message = f"`{written}` leaves the {gpus} of `{size.name}` unused"
                help_ = "remove it, or choose a size without GPUs for this step"
                related = (*relate(program.launch.size_span, gpus), *program.related)
                yield Finding(find_place(program, module, node), message, help_, related=related)
                return


def _judge_config(context: Tree, program: Program, module: Module, call: ast.Call) -> Iterator[Finding]:
    node = keyword_argument(call, "deepspeed")
    name, folder = read_value(program, module, node), program.launch.code_folder
    if node is None or not isinstance(name, str) or folder is None or name.startswith("/"):
        return
    path = Path(folder, name)
    source = context.text(path)
    if source is None:
        if name.endswith(".json") and context.is_folder(folder) and not context.exists(path):
            message = f"there is no `{name}` in the code of the step"
            help_ = "name a file relative to the folder of the code"
            yield Finding(module.span(node), message, help_, related=program.related)
        return
    root, _ = json_text.read_json(source)
    if not isinstance(root, Mapping):
        return
    for key, argument, default in _SAME:
        passed = keyword_argument(call, argument)
        value = default if passed is None else read_value(program, module, passed)
        if passed is None and any(one.arg is None for one in call.keywords):
            continue
        written = find_node(root, *key.split("."))
        if not isinstance(written, Scalar) or not isinstance(value, int | float) or written.value == value:
            continue
        is_off = written.value is False and value is True and key == "fp16.enabled"
        if isinstance(written.value, str) or is_off:
            continue
        by_default = "" if passed is not None else " by default"
        message = f"`{key}` is {written.text}, but `{argument}` is {value}{by_default}: the trainer stops"
        where = module.span(passed if passed is not None else node)
        related = (Related(where, "the training arguments"), *program.related)
        yield Finding(written.span, message, 'write `"auto"`, which takes the argument', related=related)

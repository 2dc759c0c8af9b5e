"""Ranks that a script uses for another: of the job, of the instance and of the node."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from worldsize.azureml.launch import find_gpu_launcher, find_inner_launchers
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.base.wording import plural
from worldsize.scripts.edits import choose_own_gpu
from worldsize.scripts.interface.read import read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument, variable_reads, variable_writes
from worldsize.scripts.program import Program
from worldsize.scripts.ranks import is_read_from
from worldsize.scripts.settings import read_setting


def check_rank_not_unique(context: Tree, program: Program) -> Iterator[Finding]:
    launch = program.launch
    if launch.kind not in ("pytorch", "mpi") or any(find_inner_launchers(launch)):
        return
    instances, reached = launch.instances.value or 1, read_reached(program)
    for module, node in program.find(_list_ranks):
        if not reached.runs(module, node):
            continue
        if program.per_instance > 1 and is_read_from(reached, module, node, "node_rank"):
            what = f"is the same in the {program.per_instance} processes of an instance"
        elif instances > 1 and is_read_from(reached, module, node, "local_rank"):
            what = f"starts from 0 on each of the {instances} instances"
        else:
            continue
        message = f"the rank `{ast.unparse(node)[:60]}` {what}, but each process must have its own"
        variable = "OMPI_COMM_WORLD_RANK" if launch.kind == "mpi" else "RANK"
        help_ = f'write `int(os.environ["{variable}"])`'
        yield Finding(module.span(node), message, help_, related=program.related)
        return


def _list_ranks(module: Module) -> list[ast.expr]:
    """What a file gives as the rank of its process in the whole job."""
    takers = module.called("init_process_group", "DistributedSampler")
    ranks = [keyword_argument(call, "rank") for call in takers]
    ranks += [value for name, value, _ in variable_writes(module) if name == "RANK"]
    return [node for node in ranks if node is not None]


_CALLS = ("cuda.set_device", "cuda.device", "torch.device", ".cuda", ".to", "cuda.get_device_name")
_KEYWORDS = ("device_ids", "output_device", "device", "device_id")
_PREFIXES = ("cuda:", "GPU:", "/GPU:", "/gpu:", "/device:GPU:")


def check_global_rank_as_device(context: Tree, program: Program) -> Iterator[Finding]:
    launch = program.launch
    inner = find_gpu_launcher(launch)
    per_instance = program.per_instance if inner is None else inner.starts or 0
    if (launch.instances.value or 1) < 2 or launch.kind not in ("pytorch", "mpi") or per_instance < 2:
        return
    for flag in program.command.flags():
        value = flag.value
        span = launch.span(value) if value is not None and value.bare in ("$RANK", "${RANK}") else None
        if flag.name == "local_rank" and span is not None:
            message = f"`RANK` counts all processes, but each instance numbers its {per_instance} from 0"
            yield Finding(span, message, "write `$LOCAL_RANK`")
            return
    reached = read_reached(program)
    for module, node in program.find(list_devices):
        if is_read_from(reached, module, node, "global_rank") and reached.runs(module, node):
            local = "OMPI_COMM_WORLD_LOCAL_RANK" if launch.kind == "mpi" and inner is None else "LOCAL_RANK"
            message = (
                f"`{ast.unparse(node)[:60]}` is the rank in the whole job, but an instance numbers"
                f" its {per_instance} processes and GPUs from 0"
            )
            help_ = f'write `int(os.environ["{local}"])`'
            yield Finding(module.span(node), message, help_, related=program.related)
            return


def list_devices(module: Module) -> list[ast.expr]:
    """The expressions that choose a GPU by its number."""
    devices = [node for name, call in module.calls for node in _read_call(name, call)]
    devices += [
        node.value
        for node in module.kinds.get(ast.Assign, ())
        if any(getattr(target, "attr", "") == "visible_device_list" for target in node.targets)
    ]
    for text in module.kinds.get(ast.JoinedStr, ()):
        if len(text.values) == 2 and constant_value(text.values[0]) in _PREFIXES:
            devices += [part.value for part in text.values if isinstance(part, ast.FormattedValue)]
    for node in module.kinds.get(ast.BinOp, ()):
        if constant_value(node.left) in ("cuda:", "cuda:%d", "cuda:%s"):
            devices.append(node.right)
    return devices


def _read_call(name: str, call: ast.Call) -> Iterator[ast.expr]:
    """The same for one call."""
    if f".{name}".endswith(_CALLS):
        yield from call.args[:2]
    for one in call.keywords:
        if one.arg in _KEYWORDS:
            yield from one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
    if name.endswith("set_visible_devices"):  # of TensorFlow, `gpus[rank]`
        yield from (inner.slice for inner in ast.walk(call) if isinstance(inner, ast.Subscript))
    formatted = isinstance(call.func, ast.Attribute) and constant_value(call.func.value) == "cuda:{}"
    if name == "?.format" and formatted:
        yield from call.args


def check_node_rank_from_process_rank(context: Tree, program: Program) -> Iterator[Finding]:
    if program.launch.kind != "mpi" or program.per_instance < 2:
        return
    for module, node in program.find(_find_assignments):
        count = program.per_instance
        message = f"`OMPI_COMM_WORLD_RANK` counts processes, {count} on each instance, not instances"
        help_ = "divide it by `OMPI_COMM_WORLD_LOCAL_SIZE` with `//`"
        yield Finding(module.span(node), message, help_, related=program.related)


def _find_assignments(module: Module) -> list[ast.Assign]:
    """Assignments of the one to a name of the other, without a division."""
    kinds = module.kinds
    named = module.holding(lambda word: word.upper() == "NODE_RANK")
    reads = variable_reads(module) if named else ()
    read = module.around(node for name, node in reads if name == "OMPI_COMM_WORLD_RANK")
    divided = module.around(kinds.get(ast.BinOp, ())) if read else set()
    return [
        node
        for node in kinds.get(ast.Assign, ())
        if node.value in read and node.value not in divided and not named.isdisjoint(node.targets)
    ]


def check_local_rank_unused(context: Tree, program: Program) -> Iterator[Finding]:
    if program.kind != "pytorch" or program.per_instance < 2 or not program.is_own_loop:
        return
    yield from _check_fixed(program)
    yield from _check_hidden(program)
    yield from _check_argument(program)
    if any(module.once(_sets_device) for module in program.modules):
        return
    if program.says("LOCAL_RANK", "local_rank", "local-rank", "device_count", "VISIBLE_DEVICES"):
        return
    if not program.says("init_process_group"):
        return
    uses = list(program.find(_choose_gpu))
    for module, node in uses[:1]:
        message = "all processes of an instance use this GPU: no `LOCAL_RANK` is read"
        help_ = 'write `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`'
        # One place of several would put the parts of a model on different GPUs.
        fix = choose_own_gpu(module, node) if len(uses) == 1 else None
        yield Finding(module.span(node), message, help_, related=program.related, fix=fix)


def _check_fixed(program: Program) -> Iterator[Finding]:
    """The first GPU by its number, in a script that reads `LOCAL_RANK` for other things."""
    if program.says("VISIBLE_DEVICES") or not program.says("LOCAL_RANK", "local_rank"):
        return
    for module, (node, local) in program.find(_list_fixed):
        if read_reached(program).runs_in_group(module, node):
            message = f"all {program.per_instance} processes of an instance use GPU 0 here"
            yield Finding(module.span(node), message, f"write `{local}`", related=program.related)
            return


def _list_fixed(module: Module) -> list[tuple[ast.AST, str]]:
    """Where a file names GPU 0, each with what to write."""
    return [*_find_wrapped(module), *_find_devices(module)]


def _check_hidden(program: Program) -> Iterator[Finding]:
    """`os.environ["CUDA_VISIBLE_DEVICES"] = "0"`, the same in each process."""
    for module, (name, value, statement) in program.find(variable_writes):
        text = constant_value(value)
        if name != "CUDA_VISIBLE_DEVICES" or not isinstance(text, str) or not text:
            continue
        shown = len(text.split(","))
        if shown < program.per_instance and read_reached(program).runs_in_group(module, statement):
            message = f"all {program.per_instance} processes of an instance see only {plural(shown, 'GPU')}"
            help_ = "remove it, and choose the GPU by `LOCAL_RANK`"
            yield Finding(module.span(statement), message, help_, related=program.related)
            return


def _check_argument(program: Program) -> Iterator[Finding]:
    """`--local_rank`, which the launchers of another time give; Azure ML sets a variable."""
    if program.inner is not None or program.says("LOCAL_RANK", "VISIBLE_DEVICES"):
        return
    if any(flag.name == "local_rank" for flag in program.command.flags()):
        return
    for module in program.modules:
        uses = [node for node in module.kinds.get(ast.Attribute, ()) if node.attr == "local_rank"]
        if any(not isinstance(node.ctx, ast.Load) for node in uses) or module.stores("local_rank"):
            return
    for module, node in program.find(list_devices):
        if not isinstance(node, ast.Attribute) or node.attr != "local_rank":
            continue
        default = read_setting(program, module, node)
        if type(default) is int and read_reached(program).runs_in_group(module, node):
            message = (
                f"`{ast.unparse(node)}` is {default} in all {program.per_instance} processes of an"
                " instance: nothing gives `--local_rank`"
            )
            help_ = 'write `default=int(os.environ["LOCAL_RANK"])`, or add `--local_rank $LOCAL_RANK`'
            yield Finding(module.span(node), message, help_, related=program.related)
            return


def _sets_device(module: Module) -> bool:
    """Whether the number of a GPU is calculated in any way."""
    devices = module.called("torch.device")
    numbers = [argument for call in module.called("set_device") for argument in call.args]
    numbers += [argument for call in devices for argument in call.args[1:]]
    texts = [argument for call in devices for argument in call.args[:1]]
    return any(not isinstance(number, ast.Constant) for number in numbers) or any(
        isinstance(text, ast.JoinedStr | ast.BinOp) for text in texts
    )


def _find_wrapped(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for call in module.called("DistributedDataParallel"):
        devices = keyword_argument(call, "device_ids")
        if isinstance(devices, ast.List) and [constant_value(element) for element in devices.elts] == [0]:
            yield devices, "[local_rank]"
    for call in module.called("torch.cuda.set_device"):
        if len(call.args) == 1 and _is_first(module, call.args[0]):
            yield call.args[0], "local_rank"


def _find_devices(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """`device = "cuda:0"`, if the variable never has a calculated value."""
    fixed: dict[str, bool] = {}
    for node in module.kinds.get(ast.Assign, ()):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and _is_first(module, node.value):
            name = node.targets[0].id
            if name not in fixed:
                fixed[name] = _is_fixed(module, name)
            if fixed[name]:
                yield node.value, 'f"cuda:{local_rank}"'


def _is_fixed(module: Module, name: str) -> bool:
    assigned = [
        above.value
        for node in module.stores(name)
        if isinstance(above := module.parents.get(node), ast.Assign)
    ]
    if any(isinstance(mention, ast.arg) for mention in module.mentions(name)):
        return False
    return all(_is_first(module, value) or constant_value(value) for value in assigned)


def _is_first(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and module.name_of(node.func) == "torch.device":
        numbers = [constant_value(argument) for argument in node.args]
        return not node.keywords and numbers in (["cuda:0"], ["cuda", 0])
    value = constant_value(node)
    is_argument = isinstance(module.parents.get(node), ast.Call)
    return value == "cuda:0" or (type(value) is int and value == 0 and is_argument)


def _choose_gpu(module: Module) -> list[ast.AST]:
    """The places that name CUDA's device or the first of them."""
    return [
        node
        for node in module.nodes
        if constant_value(node) in ("cuda", "cuda:0")
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda")
    ]

"""What the text of a script tells about its training."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from worldsize.adopting.distributing.files import read_opened
from worldsize.adopting.model import Flag, Framework, ScriptProfile
from worldsize.adopting.source.reading import read_beside
from worldsize.facts.library_calls import find_call, list_last_names
from worldsize.scripts.module import Module, constant_value, find_mentions, keyword_argument, list_packages

_READS = ("read_csv", "read_parquet", "load", "open", "ImageFolder", "loadtxt", "imread", "load_from_disk")
_NORM = re.compile(r"BatchNorm(?:1d|2d|3d|alization)?|resnet|vgg1[1369]_bn|mobilenet|efficientnet|densenet")
_ATTENTION = re.compile(r"Transformer\w*|\w{0,60}Attention|scaled_dot_product_attention|vit_\w+|swin_\w+")
_DROPOUT = re.compile(
    r"Dropout(?:1d|2d|3d)?|dropout|attn_pdrop|TransformerEncoderLayer|TransformerDecoderLayer"
)
_AUGMENTATION = re.compile(
    r"Random(?!Sampler|ForestClassifier|State)\w+|ColorJitter|AutoAugment|TrivialAugmentWide|mixup"
)
_CONTRASTS = re.compile(r"nt_?xent|info_?nce|contrastive|simclr|triplet", re.IGNORECASE)
_NOISE = ("torch.randn_like", "torch.rand_like", "torch.bernoulli", "torch.normal", "rsample", "normal_")
_TRANSFORMERS = re.compile(r"AutoModel|For[A-Z]|Config$|Model$")
_WARM_UP = re.compile(r"warm_?up", re.IGNORECASE)
_SCHEDULE = re.compile(r"(?:lr|rate)_?sched|Scheduler$|\bget_\w{0,60}schedule|LR$", re.IGNORECASE)
_SAMPLER = ("sampler", "batch_sampler")


def describe_script(module: Module, framework: Framework) -> ScriptProfile:
    """The profile of a script, without its options and numbers, which :func:`add_options` adds.

    What a model or a dataset does is looked for in the modules beside the script too.
    """
    modules = read_beside(module).modules
    words = {word for beside in modules for word in find_mentions(beside.tree)}
    words |= {name.rpartition(".")[2] for beside in modules for name, _ in beside.calls}
    full_names = {full for beside in modules for full in beside.names.values()}
    # Most models of Transformers have dropout unless their configuration says otherwise.
    has_transformers = any(
        full.startswith("transformers.") and _TRANSFORMERS.search(full) for full in full_names
    )
    tops = {name for beside in modules for name in list_packages(beside)}
    loaders = [call for beside in modules for call in beside.called("DataLoader")]
    return ScriptProfile(
        path=module.source.path,
        framework=framework,
        imports=tuple(sorted(tops - set(sys.stdlib_module_names))),
        needs=tuple(sorted({need for beside in modules for need in list_needs(beside)})),
        reads=_list_paths(module, _READS, "r"),
        writes=_list_paths(module, list_last_names("writes"), "w"),
        optimizer=next(filter(None, map(find_optimizer_name, modules)), None),
        warms_up=_warms_up(modules, words),
        has_attention=_says(words, _ATTENTION) or has_transformers,
        has_batch_norm=_says(words, _NORM),
        has_dropout=_says(words, _DROPOUT) or has_transformers,
        random_augmentation=_says(words, _AUGMENTATION)
        or any(any(list_sample_draws(beside)) for beside in modules),
        draws_noise=any(map(_draws_noise, modules)),
        shuffles=_shuffles(module),
        keeps_last=framework != "keras" and _keeps_last(modules, framework),
        own_sampler=any(keyword.arg in _SAMPLER for call in loaders for keyword in call.keywords),
        module=find_module_name(module),
        compares_rows=any(map(_CONTRASTS.search, words)) or any(map(_compares_rows, modules)),
        prepared_scheduler=any(
            "sched" in ast.unparse(part).lower() for call in module.called("prepare") for part in call.args
        ),
    )


def _warms_up(modules: Sequence[Module], words: Collection[str]) -> bool | None:
    """Whether the learning rate begins low by the script's own code; None if its schedule may do so."""
    names = [name for module in modules for name, _ in module.calls]
    keywords = [keyword for module in modules for keyword in module.kinds.get(ast.keyword, ())]
    passed = (keyword.arg for keyword in keywords if keyword.arg and constant_value(keyword.value) != 0)
    is_named = any(_WARM_UP.search(word) for word in (*words, *passed) if " " not in word)
    if is_named or any(find_call(name, "warms_up") for name in names):
        return True
    sets_rate = any(
        isinstance(node.ctx, ast.Store) and constant_value(node.slice) == "lr"
        for module in modules
        for node in module.kinds.get(ast.Subscript, ())
    )
    schedules = (name for name in names if _SCHEDULE.search(name) and not find_call(name, "lowers_rate"))
    return None if sets_rate or any(schedules) else False


def add_options(
    profile: ScriptProfile, flags: tuple[Flag, ...], numbers: Mapping[str, float | None]
) -> ScriptProfile:
    """The profile with the options of the adopted script, and the numbers that its loop trains with."""
    batch, epochs = numbers.get("batch_size"), numbers.get("epochs")
    return structs.replace(
        profile,
        flags=flags,
        batch_size=None if batch is None else int(batch),
        learning_rate=numbers.get("learning_rate"),
        epochs=None if epochs is None else int(epochs),
    )


def find_module_name(module: Module) -> str | None:
    """``package.train`` of a script that imports from its own package; None where its path starts it."""
    script = Path(module.source.path).absolute()
    depth = max((level for _, level, _ in module.imports), default=0)
    above = script.parent
    while (above / "__init__.py").is_file():
        above = above.parent
        package = script.relative_to(above).parts[0]
        if any(name.partition(".")[0] == package for name, level, _ in module.imports if not level):
            depth = max(depth, len(script.relative_to(above).parts) - 1)
    inside = script.relative_to(above).with_suffix("").parts
    if len(inside) <= depth:  # a folder without `__init__.py`
        inside = script.with_suffix("").parts[-depth - 1 :]
    return ".".join(inside) if depth and all(part.isidentifier() for part in inside) else None


def find_optimizer_name(module: Module) -> str | None:
    """The optimizer in lower case: `adamw` of `torch.optim.AdamW(…)` or `optim="adamw"`."""
    for name, _ in module.calls:
        before, _, last = name.rpartition(".")
        if last[:1].isupper() and last != "Optimizer" and before.endswith(("optim", "optimizers")):
            return last.lower()
    for call in module.called("compile", "TrainingArguments"):
        optimizer = keyword_argument(call, "optimizer") or keyword_argument(call, "optim")
        if isinstance(value := constant_value(optimizer), str):
            return value.partition("_")[0].lower()
    return "adamw" if "TrainingArguments" in module.text else None


def _says(words: set[str], pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(word) for word in words)


def _compares_rows(module: Module) -> bool:
    """Whether a matrix is multiplied by its own transpose: ``z @ z.t()``."""
    return any(
        isinstance(node.op, ast.MatMult)
        and ast.unparse(node.right) in (f"{ast.unparse(node.left)}.t()", f"{ast.unparse(node.left)}.T")
        for node in module.kinds.get(ast.BinOp, ())
    )


def _draws_noise(module: Module) -> bool:
    """Whether a model or a loop draws random tensors, as a variational autoencoder does."""
    if module.called(*_NOISE):
        return True
    return any(
        isinstance(above, ast.ClassDef) and any(ast.unparse(base).endswith("Module") for base in above.bases)
        for call in module.called("torch.randn", "torch.rand", "torch.randint")
        for above, _ in module.ancestors(call)
    )


def _keeps_last(modules: Sequence[Module], framework: Framework) -> bool:
    """Whether no loader drops its last batch, where loaders make all batches."""
    maker = "TrainingArguments" if framework == "transformers" else "DataLoader"
    loaders = [call for module in modules for call in module.called(maker)]
    says = (*_SAMPLER, "drop_last", "dataloader_drop_last", None)
    return bool(loaders) and not any(
        len(call.args) > 2
        or any(one.arg in says and constant_value(one.value) is not False for one in call.keywords)
        for call in loaders
    )


def _shuffles(module: Module) -> bool:
    loaders = module.called("DataLoader")
    drawn = [keyword_argument(call, "shuffle") for call in loaders]
    return not loaders or any(value is not None and constant_value(value) is not False for value in drawn)


def _list_paths(module: Module, names: Collection[str], mode: str) -> tuple[str, ...]:
    """The texts that look like paths in calls which read, or write, files."""
    paths: dict[str, None] = {}
    for name, call in module.calls:
        last = name.rpartition(".")[2]
        chosen = last in names
        if last == "open":
            chosen = (mode == "w") is not set("wax+").isdisjoint(read_opened(call).mode)
        for argument in (*call.args[:2], *(keyword.value for keyword in call.keywords)) if chosen else ():
            for node in ast.walk(argument):
                value = constant_value(node)
                if isinstance(value, str) and re.search(r"[/\\]|\.\w{2,5}$", value):
                    paths[value] = None
    return tuple(paths)


Need = tuple[str, ...]  # the packages of which one is enough, the usual one first

_TENSORBOARD = ("tensorboard", "tensorboardx")
_PARQUET = ("pyarrow", "fastparquet")
_BY_NAME: tuple[tuple[re.Pattern[str], Need], ...] = (
    (re.compile(r"torch\.utils\.tensorboard(?:\..+)?"), ("tensorboard",)),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}TensorBoardLogger"), _TENSORBOARD),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}WandbLogger"), ("wandb",)),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}MLFlowLogger"), ("mlflow", "mlflow-skinny")),
    (re.compile(r"(?:pytorch_)?lightning\.[\w.]{0,60}CometLogger"), ("comet-ml",)),
    (re.compile(r"pandas\.read_parquet"), _PARQUET),
    (re.compile(r"pandas\.read_(?:feather|orc)"), ("pyarrow",)),
    (re.compile(r"pandas\.(?:read_hdf|HDFStore)"), ("tables",)),
    (re.compile(r"transformers\.[\w.]{0,60}BitsAndBytesConfig"), ("bitsandbytes",)),
    (re.compile(r"torchvision\.datasets\.Coco(?:Detection|Captions)"), ("pycocotools",)),
)
_OF_FRAMES: dict[str, Need] = {
    "to_parquet": _PARQUET,
    "to_feather": ("pyarrow",),
    "to_hdf": ("tables",),
    "to_excel": ("openpyxl", "xlsxwriter"),
    "to_markdown": ("tabulate",),
}
_OTHER_FRAMES = frozenset({"polars", "dask", "pyspark", "cudf", "modin", "datasets"})
_EXCEL: dict[str, Need] = {"xlsx": ("openpyxl",), "xlsm": ("openpyxl",), "xls": ("xlrd",), "ods": ("odfpy",)}
_TRACKERS: dict[str, Need] = {"tensorboard": _TENSORBOARD, "wandb": ("wandb",), "comet_ml": ("comet-ml",)}
_TRACKERS |= {"mlflow": ("mlflow", "mlflow-skinny")}


def list_needs(module: Module) -> set[Need]:
    """What the calls and the imports of a file need."""
    names = {name for name, level, _ in module.imports if not level}
    names |= {name for name, _ in module.calls}
    needs = {need for pattern, need in _BY_NAME if any(map(pattern.fullmatch, names))}
    if any(name.partition(".")[0] == "mlflow" for name in names) or ("mlflow", "mlflow-skinny") in needs:
        needs.add(("azureml-mlflow",))  # MLflow's store of a job is the workspace
    return needs | {need for name, call in module.calls for need in _list_of_call(module, name, call)}


def _list_of_call(module: Module, name: str, call: ast.Call) -> Iterator[Need]:
    last = name.rpartition(".")[2]
    tops = {full_name.partition(".")[0] for full_name in module.names.values()}
    if last in _OF_FRAMES and "pandas" in tops and tops.isdisjoint(_OTHER_FRAMES):
        yield _OF_FRAMES[last]
    elif name == "pandas.read_excel":
        texts = [constant_value(node) for node in ast.walk(call) if isinstance(node, ast.Constant)]
        ends = [text.rpartition(".")[2].lower() for text in texts if isinstance(text, str) and "." in text]
        yield next((_EXCEL[ending] for ending in ends if ending in _EXCEL), _EXCEL["xlsx"])
    elif last.endswith(("TrainingArguments", "Accelerator")):
        trackers = keyword_argument(call, "report_to" if last.endswith("Arguments") else "log_with")
        for tracker in getattr(trackers, "elts", [trackers]):
            value = constant_value(tracker)
            if isinstance(value, str) and value in _TRACKERS:
                yield _TRACKERS[value]


_DRAWS = re.compile(
    r"(?:random|numpy\.random|np\.random|.*(?:rng|generator))\.(?:random|rand|randn|randint|randrange|integers|uniform|normal"
    r"|standard_normal|gauss|choice|choices|beta|binomial)|torch\.(?:rand|randn|randint)"
)


def list_sample_draws(module: Module) -> Iterator[ast.Call]:
    """The calls that draw random numbers for a sample."""
    functions = {node.name: node for node in module.kinds.get(ast.FunctionDef, ())}
    methods = [
        method
        for node in module.kinds.get(ast.ClassDef, ())
        if any(getattr(statement, "name", "") in ("__getitem__", "__call__") for statement in node.body)
        and not any("Module" in ast.unparse(base) for base in node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
    ]
    called = {
        functions[node.id]
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Name) and node.id in functions
    }
    collators = [
        functions[keyword.value.id]
        for call in module.called("DataLoader")
        for keyword in call.keywords
        if keyword.arg == "collate_fn" and getattr(keyword.value, "id", "") in functions
        if isinstance(keyword.value, ast.Name)
    ]
    for function in dict.fromkeys((*methods, *called, *collators)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _DRAWS.fullmatch(module.name_of(node.func)):
                yield node

"""`worldsize.init`: starts a project from data, a script or a pipeline, and writes its files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.project.files import (
    CODE,
    find_existing,
    make_project,
    name_spec,
    relative_path,
    write_files,
)
from worldsize.adopting.project.inputs import find_data
from worldsize.adopting.project.spec import (
    MOST_GROWTH,
    TIMEOUT_SECONDS,
    ProjectRequest,
    Target,
    choose_size,
    count_processes,
    find_size,
    limit_batch,
    most_instances,
)
from worldsize.adopting.starting import files
from worldsize.adopting.starting.pipeline import (
    StartError,
    check_inside,
    check_pipeline,
    find_clusters,
    find_code,
)
from worldsize.adopting.starting.table import (
    Label,
    count_classes,
    find_imbalance,
    find_labels,
    find_settings,
    find_telling,
)
from worldsize.azureml import yaml_dump
from worldsize.azureml.model import Field
from worldsize.azureml.yaml_dump import Flow
from worldsize.base import untrusted
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import describe_os_error, quoted_list
from worldsize.checking import check_spec
from worldsize.data.tables import Table, read_table
from worldsize.documents import yaml
from worldsize.documents.errors import OutputError, SpecError
from wsleaks.columns import TellingColumn
from wsshards.errors import UserError
from wsshards.regular_files import list_files
from wssources.formats import PICTURES, TABLES

Kind = Literal["example", "table", "pictures", "script", "pipeline"]
_MANY = 100_000
_PANDAS = {
    ".tsv": "read_csv({!r}, sep='\\t')",
    ".tab": "read_csv({!r}, sep='\\t')",
    ".xlsx": "read_excel({!r})",
    ".xls": "read_excel({!r})",
    ".feather": "read_feather({!r})",
    ".dta": "read_stata({!r})",
}


class Question(NamedTuple):
    """What a project needs to know from its user."""

    text: str
    usual: str  # the answer that is taken if there is no other; empty is one
    read: Callable[[str], Any]  # raises StartError or UnknownSizeError for an answer that is wrong


Ask = Callable[[Question], Any] | None


class Started(Struct, frozen=True):
    """A project that was written."""

    folder: Path
    spec: str | None  # the one to run, in the folder
    written: tuple[Path, ...]
    kept: tuple[Path, ...]  # files that exist, and were not replaced
    notes: tuple[str, ...]  # sentences about the data
    script: Path | None = None  # that was adopted


class NewProject(Struct, frozen=True):
    """The files of a project by their paths in its folder; ``spec`` is the one to run, if there is one."""

    files: dict[str, bytes]
    spec: str | None


def init(
    folder: str | os.PathLike[str] = ".",
    *,
    source: str | os.PathLike[str] | None = None,
    label: str | None = None,
    name: str | None = None,
    instance_type: str | None = None,
    instance_count: int = 1,
    force: bool = False,
    ask: Ask = None,
) -> Started:
    """Start a project: write a spec, settings with clusters, an ignore file and a workflow that checks it.

    Args:
        folder: Of the project.
        source: A table, a folder of pictures, a script, or an Azure ML pipeline, which stays as it is; None
            or ``-`` for an example.
        label: The column of a table that is to be predicted; by default that with the name of one.
        name: Of the spec; by default that of the source.
        instance_type: The VM size that trains; of a pipeline, that of its clusters.
        instance_count: Of the job that trains.
        force: Whether to replace files that exist.
        ask: Asks for what was left out; without it the usual answers are taken.

    Raises:
        StartError: No project can be started from the source.
        AdoptError: The source is a script that cannot be adopted.
        OutputError: The spec exists already, or a file cannot be written. Nothing was written.
        UnknownSizeError: ``instance_type`` is not a VM size.
        SpecError: Worldsize itself is at fault.
        OSError: A file cannot be read.
    """
    folder = Path(folder)
    path = _choose_source(source, ask)
    kind = find_kind(path)
    if kind == "pipeline":
        assert path is not None
        check_inside(path, folder)
        sizes = _choose_sizes(find_clusters(path, folder), instance_type, ask)
        return _write(folder, _surround_pipeline(folder, path, sizes), force=force)
    usual = name_spec(path.stem if path is not None else folder.absolute().name, "project")
    if name is None:
        name = ask(Question("Name", usual, str)) if ask else usual
    if instance_type is None:
        size = choose_size(instance_count)
        instance_type = ask(Question("VM size", size, find_size)) if ask else size
    name, target = name_spec(name, "project"), Target(find_size(instance_type), instance_count)
    if kind == "script":
        assert path is not None
        return replace(_write(folder, _adopt(folder, path, name, target), force=force), script=path)
    try:
        start = _find_start(kind, folder, path, label, ask)
    except UserError as error:
        raise StartError(str(error.message), error.help) from None
    made = _make_files(name, start, target)
    _check(folder, made)
    return replace(_write(folder, made, force=force), notes=start.notes)


def _choose_source(source: str | os.PathLike[str] | None, ask: Ask) -> Path | None:
    """What the project starts from, asking until the answer can be used; None is an example."""

    def read(text: str) -> Path | None:
        path = None if text == "-" else Path(_unquote(text)).expanduser()
        find_kind(path)
        return path

    if source is None and ask is not None:
        text = "Start from (a table, a folder of pictures, train.py, pipeline.yml, - example)"
        path: Path | None = ask(Question(text, "-", read))
        return path
    return None if source in (None, "-") else Path(str(source)).expanduser()


def _unquote(text: str) -> str:
    """A path as terminals paste it, between quotation marks."""
    text = text.strip()
    quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _choose_sizes(clusters: Sequence[str], size: str | None, ask: Ask) -> dict[str, str | None]:
    """The VM sizes of a pipeline's clusters: only the user knows them."""
    if size is not None:
        return dict.fromkeys(clusters, find_size(size))

    def read(text: str) -> str | None:
        return find_size(text) if text.strip() else None

    text = "VM size of the cluster `{}` (empty if you do not know it)"
    return {name: ask(Question(text.format(name), "", read)) if ask else None for name in clusters}


def _choose_label(table: Table, name: str | None, ask: Ask) -> Label:
    """The label: the given column, one with the name of a label, or the answer to a question."""

    def read(text: str) -> str:
        if text not in table.columns:
            raise StartError(f"`{table.path.name}` has no column `{text}`")
        return text

    if name is not None:
        if name not in table.columns:
            columns = f"its columns are {quoted_list(table.columns)}"
            hint = did_you_mean(name, table.columns) or columns
            raise StartError(f"`{table.path.name}` has no column `{name}`", hint)
        return Label(name, "as given")
    labels = find_labels(table)
    if ask and labels:
        question = Question(f"Label (of {quoted_list(table.columns)})", labels[0].name, read)
        return Label(ask(question), "as chosen")
    if len(labels) == 1:
        return labels[0]
    names = quoted_list([label.name for label in labels])
    raise StartError(
        f"several columns of `{table.path.name}` may be the label: {names}",
        "choose one with `--label COLUMN`",
    )


def _adopt(folder: Path, script: Path, name: str, target: Target) -> NewProject:
    """The files of a project around an adopted script."""
    adoption = adopt_script(script)
    request = ProjectRequest(adoption, script, target, find_data(adoption.profile, script), name=name)
    made = make_project(request, folder, beside=False)
    clusters = {GPU_CLUSTER: (target.instance_type, most_instances(target.instance_count))}
    around = _encode({**_surround(clusters), f"{CODE}/{files.IGNORED}": files.write_ignored()})
    return NewProject(made.files | around, made.spec)


def _check(folder: Path, made: NewProject) -> None:
    """Refuse to write a spec that has errors: they are those of the data, and shown without its places."""
    assert made.spec is not None
    path = folder / made.spec
    try:
        check_spec(path, yaml.load(path, made.files[made.spec].decode()))
    except SpecError as error:
        if any(finding.code == "WS000" for finding in error.diagnostics):
            raise
        first = next(finding for finding in error.diagnostics if finding.severity == "error")
        message = f"the data has faults; nothing is written: {first.message} [{first.code}]"
        raise StartError(message, first.help) from None


def _write(folder: Path, made: NewProject, *, force: bool) -> Started:
    """Write the files. One that exists is kept, unless ``force``; a spec that exists is in the way."""
    existing = find_existing(folder, made.files)
    if not force and (made.spec in existing or len(existing) == len(made.files)):
        help_ = "choose another `--name`, or replace what exists with `--force`"
        message = f"`{folder / (made.spec or existing[0])}` exists already; nothing is written"
        raise OutputError(message, help_ if made.spec else "`--force` replaces it")
    new = {name: content for name, content in made.files.items() if name not in existing}
    old = existing if force else []
    try:
        replaced = {folder / name: (untrusted.read_bytes(folder / name), made.files[name]) for name in old}
        write_files(folder, new, replaced)
    except OSError as error:
        raise OutputError(f"`{error.filename}` cannot be written: {describe_os_error(error)}") from None
    written = [folder / name for name in made.files if force or name not in existing]
    kept = [] if force else [folder / name for name in existing]
    return Started(folder, made.spec, tuple(written), tuple(kept), ())


def find_kind(source: Path | None) -> Kind:
    """What a path is, by its name and content; None is the example.

    Raises:
        StartError: No project starts from it.
    """
    if source is None:
        return "example"
    help_ = "start from a table (CSV, JSON Lines, Parquet), a folder of pictures, a script, or a pipeline"
    if not source.exists():
        raise StartError(f"`{source}` does not exist", help_)
    suffix = source.suffix.lower()
    if source.is_dir():
        if _list_pictures(source):
            return "pictures"
        tables = sorted(path for path in source.iterdir() if path.suffix.lower() in TABLES)
        if tables:
            help_ = f"name one of its tables: `--from {shlex.quote(str(tables[0]))}`"
        raise StartError(f"`{source}` contains no pictures", help_)
    if suffix == ".py":
        return "script"
    if suffix in (".yml", ".yaml"):
        check_pipeline(source)
        return "pipeline"
    if suffix in TABLES and TABLES[suffix] != "npz":
        return "table"
    raise StartError(f"`{source}` is nothing that a project starts from", _find_way(source, suffix) or help_)


def _find_way(source: Path, suffix: str) -> str | None:
    """How to make a CSV of a table in another format."""
    if suffix not in _PANDAS:
        return None
    read = _PANDAS[suffix].format(source.name)
    return f"write a CSV: `pandas.{read}.to_csv({source.with_suffix('.csv').name!r}, index=False)`"


def _list_pictures(folder: Path) -> list[str]:
    return [path for path in list_files(folder, _MANY) if Path(path).suffix.lower() in PICTURES]


def _make_files(name: str, start: Start, target: Target) -> NewProject:
    """The files of a project that starts from data."""
    ignored = [start.path.removeprefix("./")] if start.path.startswith("./") else []
    text = yaml_dump.dump(_describe_start(name, start, target), header=files.SPEC_SCHEMA)
    most = most_instances(target.instance_count)
    clusters = {GPU_CLUSTER: (target.instance_type, most), CPU_CLUSTER: (CPU_SIZE, 1)}
    allowed = [start.path] if start.path and not ignored else []
    around = {**_surround(clusters, allowed), files.IGNORED: files.write_ignored(*ignored)}
    return NewProject(_encode({f"{name}.yml": text, **around}), f"{name}.yml")


def _surround_pipeline(folder: Path, pipeline: Path, sizes: Mapping[str, str | None]) -> NewProject:
    """The files around a pipeline that exists, which stays as it is.

    ``sizes`` are the VM sizes of its clusters, as far as the user knows them.
    """
    clusters = {name: (size, None) for name, size in sizes.items()}
    ignored = {
        (Path(code) / files.IGNORED).as_posix(): files.write_ignored() for code in find_code(pipeline, folder)
    }
    return NewProject(_encode({**_surround(clusters), **ignored}), None)


def _surround(
    clusters: Mapping[str, tuple[str | None, int | None]], allowed: Sequence[str] = ()
) -> dict[str, str]:
    return {files.SETTINGS: files.write_settings(clusters, allowed), files.WORKFLOW: files.write_workflow()}


def _encode(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in texts.items()}


GPU_CLUSTER, CPU_CLUSTER = "gpu-cluster", "cpu-cluster"
CPU_SIZE = "Standard_D16s_v5"
_SPLIT = "a fifth is held out for validation"
_TOGETHER = "its rows of one value stay in one part"


class Start(Struct, frozen=True):
    """What a project trains."""

    shard: dict[str, Any]  # the inputs of `shard_data`, with comments where a choice was made
    model: str
    train: dict[str, Any] = {}
    epochs: int = 20
    path: str = ""  # of the data, from the spec
    rows: int | None = None  # of the data, where they are known
    gate: Mapping[str, str] = {}  # what a model must reach to be registered
    notes: tuple[str, ...] = ()  # about the data, that is not in the spec
    split_by: str = ""  # the column whose rows of one value stay in one part


def _find_start(kind: Kind, folder: Path, source: Path | None, label: str | None, ask: Ask) -> Start:
    """What a project trains that starts from data; an example is to be replaced by the user's.

    Raises:
        UserError: Nothing can be learned from the table.
    """
    if source is None:
        why = "1,797 handwritten digits; for a table of your own: `worldsize init --from data.csv`"
        return Start({"source": Field("builtin:digits", comment=why)}, "cnn", gate=_choose_gate(10, None))
    path = relative_path(source.absolute(), folder.absolute())
    if kind == "pictures":
        data = Field(Flow(type="uri_folder", path=path), comment=f"a folder for each class; {_SPLIT}")
        pictures = _list_pictures(source)
        rows, classes = len(pictures), len({Path(picture).parts[0] for picture in pictures})
        return Start(
            {"data": data},
            "cnn",
            {"augmentation": "light"},
            epochs=10,
            path=path,
            rows=rows,
            gate=_choose_gate(classes, rows),
        )
    table = read_table(source)
    chosen = _choose_label(table, label, ask)
    return _start_from_table(table, path, chosen, _doubt(find_telling(table, chosen.name), chosen.name, ask))


def _doubt(telling: Sequence[TellingColumn], label: str, ask: Ask) -> list[TellingColumn]:
    """The columns that are left out because they alone tell the label: all, unless the user knows better."""

    def read(text: str) -> bool:
        if text.strip().lower() not in ("y", "yes", "n", "no"):
            raise StartError(f"`{text}` is neither yes nor no")
        return text.strip().lower().startswith("y")

    text = "{}. Is its value known before `{}` is (yes, no)"
    questions = [
        (column, Question(text.format(column.describe(label), label), "no", read)) for column in telling
    ]
    return [column for column, question in questions if ask is None or not ask(question)]


def _start_from_table(table: Table, path: str, label: Label, telling: Sequence[TellingColumn]) -> Start:
    settings = find_settings(table, label.name, telling)
    imbalance = find_imbalance(table, label.name)
    data = Field(Flow(type="uri_file", path=path), comment=_SPLIT)
    shard = {"data": data, "label": Field(label.name, comment=label.reason), **settings.inputs}
    is_text = "text" in settings.inputs
    train: dict[str, Any] = {} if is_text else {"early_stopping_patience": 5}
    classes = count_classes(table, label.name)
    best = "average_precision" if classes == 2 else "balanced_accuracy"
    train |= {"class_weights": "balanced", "best_metric": best} if imbalance else {}
    notes = [*settings.said, *([imbalance] if imbalance else [])]
    if label.reason not in ("as given", "as chosen"):
        notes.insert(0, f"the label is `{label.name}`, {label.reason}: `--label` chooses another column")
    model, rows = "gpt" if is_text else "mlp", len(table.head.rows)
    gate = _choose_gate(classes, rows, best if imbalance and classes == 2 else "accuracy")
    by = settings.by
    return Start(shard, model, train, path=path, rows=rows, gate=gate, notes=tuple(notes), split_by=by)


_FEW_ROWS = 1000  # of which an honest model may get all held-out ones right


def _choose_gate(classes: int | None, rows: int | None, perfect: str = "accuracy") -> dict[str, str]:
    """The conditions that neither a guess passes nor a model whose data holds the answer.

    ``perfect`` is the metric in which that one is: of rare classes even a constant answer is accurate.
    """
    if classes is None:
        return {}
    ceiling = rows is not None and rows >= _FEW_ROWS
    if classes:
        guess = {"balanced_accuracy": f"> {1.1 / classes:.2g}"}
        return {**guess, perfect: "< 0.9995"} if ceiling else guess
    return {"r2": "> 0.05", "loss": "> 0.0005"} if ceiling else {"r2": "> 0.05"}


def _choose_batch(rows: int | None, world_size: int) -> int:
    """The batch size of one process: usually 32, less where an epoch would have fewer than four steps."""
    batch = 32
    while rows is not None and batch > 1 and batch * world_size * 4 > rows * 4 // 5:
        batch //= 2
    return batch


def _choose_scale(batch: int, target: Target) -> Flow:
    """The reference on one GPU; on many the global batch is pinned where the √ rule still holds."""
    batch = max(batch, -(-count_processes(target) // MOST_GROWTH))
    limit = limit_batch(batch, target)
    pinned = {"global_batch_size": limit} if limit is not None else {}
    return Flow(reference=Flow(batch_size=batch, learning_rate=0.001), **pinned)


def _describe_start(name: str, start: Start, target: Target) -> dict[str, Any]:
    """The spec of a project: shard, train, evaluate, register."""
    instance_type, instance_count = target.instance_type, target.instance_count
    most = most_instances(instance_count)
    gpu = Flow(target=f"azureml:{GPU_CLUSTER}", instance_type=instance_type, max_instances=most)
    cpu = Flow(target=f"azureml:{CPU_CLUSTER}", instance_type=CPU_SIZE, max_instances=1)
    # Several GPU instances cost most when they hang.
    timeout = Field(TIMEOUT_SECONDS, comment="seconds")
    count = {"instance_count": instance_count, "timeout": timeout} if instance_count > 1 else {}
    train = Flow(model=start.model, epochs=start.epochs, optimizer="adamw", **start.train)
    split = {"split": Field(Flow(by=start.split_by), comment=_TOGETHER)} if start.split_by else {}
    why = ", ".join(["better than a guess", "not too good to be true"][: len(start.gate)])
    gate = {"when": Flow(**start.gate)} if start.gate else {}
    scale = _choose_scale(_choose_batch(start.rows, count_processes(target)), target)
    return {
        "name": name,
        "compute": {"gpu": gpu, "cpu": cpu},
        "steps": {
            "shard": {
                "uses": "shard_data",
                "compute": "cpu",
                "with": start.shard,
                **split,
            },
            "train": {
                "uses": "train_ddp",
                "compute": "gpu",
                **count,
                "with": train,
                "scale": Field(scale, comment="what works on one GPU"),
            },
            "evaluate": Flow(uses="evaluate", compute="cpu"),
            "register": Field(
                Flow(uses="register", compute="cpu", **{"with": Flow(model_name=name)}, **gate), comment=why
            ),
        },
    }

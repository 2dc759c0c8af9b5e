"""The script that a command starts, with the modules beside it that it imports."""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from msgspec import Struct

from worldsize.azureml.command_launchers import MPI, InnerLauncher
from worldsize.azureml.command_line import Command, Word
from worldsize.azureml.launch import STARTS_PROCESSES, Launch, find_launcher, read_launches
from worldsize.azureml.model import Component, Job, Step
from worldsize.azureml.references import local_path
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Related
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Scalar
from worldsize.scripts.module import Module, keep, list_packages, parse_module

_PYTHON = re.compile(r"(?:\S*/)?(?:python[\d.]*|torchrun|deepspeed|accelerate|horovodrun|mpirun|mpiexec)$")
_LAUNCHERS = ("torch", "accelerate", "deepspeed")
_MAX_MODULES = 40  # modules of one script that are read
_COMMANDS = 200  # commands of one step whose scripts are looked for
_REPEATED = 20_000_000  # characters of scripts that one job starts once more in another way
_IMPORTS = 1_000  # imports of one module that are looked for
_KNOWN = re.compile(  # packages that start no process group and shard no data by themselves
    "torch|torchvision|torchaudio|torchtext|tensorflow|tensorboard|keras|horovod|mpi4py|numpy|pandas|scipy|sklearn"
    "|matplotlib|seaborn|PIL|cv2|tqdm|yaml|mlflow|azureml|azure|pyarrow|joblib|requests|datasets|tokenizers"
    "|absl|sentencepiece|packaging|psutil|einops|regex|dotenv|click|rich|fsspec|h5py|timm|skimage|imageio"
    "|wandb|omegaconf|hydra|torchmetrics|torchinfo|albumentations|kornia|evaluate|sacrebleu|rouge_score|seqeval|nltk"
    "|lmdb|loguru|tabulate|termcolor|prettytable|colorama|fvcore|iopath|visdom|imgaug|pycocotools|numba|sympy|networkx"
    "|jsonlines|munch|addict|easydict|yacs|ml_collections|typer|fire|tyro|pydantic|attr|attrs|toml|tomli|boto3"
    "|botocore|s3fs|gcsfs|adlfs|zarr|xarray|netCDF4|nibabel|pydicom|SimpleITK|librosa|soundfile|orjson|ujson|simplejson"
    "|comet_ml|neptune|clearml|aim|tensorboardX|jsonargparse|configargparse|simple_parsing|docopt|tap|shap|plotly"
)
_COMMENT = re.compile(r"^[ \t]*#.*|[ \t]#[^\"'\n]*$", re.MULTILINE)
# Packages that give a model to a loop that DDP makes parallel, and do the rest only for a Trainer of theirs.
_GIVE_MODELS = frozenset(
    {"transformers", "peft", "diffusers", "bitsandbytes", "open_clip", "segmentation_models_pytorch"}
    | {"efficientnet_pytorch", "xformers", "flash_attn", "clip", "sentence_transformers"}
)
_UNREAD = ""  # among the packages: a module that could not be read
T = TypeVar("T")


class Imported(NamedTuple):
    """A script with the modules beside it that it imports, also one by another."""

    modules: tuple[Module, ...]  # the script first
    importers: dict[Module, tuple[Module, ast.stmt]]  # what first imports each of the others, and where
    beside: frozenset[str]  # the first words of imports that are modules beside it
    unknown: frozenset[str]  # the packages whose effect is not known


class Program(Struct, eq=False):
    """A script as one step starts it. ``modules`` begins with the script itself."""

    launch: Launch
    launches: list[Launch]  # of all steps that start it so; their inputs may differ
    command: Command
    word: Word  # what names the script in the command
    place: Span | None  # of that word
    path: Path
    modules: tuple[Module, ...]
    folders: tuple[Path, ...]  # where its imports are looked for
    unknown: frozenset[str]  # the packages that it imports whose effect is not known
    inner: InnerLauncher | None = None  # of the command, inside of Azure ML's own

    @property
    def entry(self) -> Module:
        """The script."""
        return self.modules[0]

    @property
    def complete(self) -> bool:
        """Whether every module was read and every other import is a package with a known effect."""
        return not self.unknown

    @property
    def is_own_loop(self) -> bool:
        """The same, or what else it imports only gives a model to the loop of its own that DDP wraps."""
        if self.complete or not self.unknown <= _GIVE_MODELS:
            return self.complete
        wraps = self.refers("DistributedDataParallel") and self.refers("init_process_group")
        return wraps and not self.says("Trainer(", "Trainer,", "Accelerator(")

    @property
    def kind(self) -> str | None:
        """The launcher that sets the ranks for the script: pytorch, mpi or tensorflow."""
        if self.inner is None:
            return self.launch.kind
        return "mpi" if self.inner.name in MPI else "pytorch"

    @property
    def processes(self) -> int:
        """The least number of processes of the job."""
        launch = self.launch
        if self.inner is None and launch.kind == "tensorflow":
            return launch.workers.value or 1
        return (launch.instances.value or 1) * self.per_instance if self.kind in STARTS_PROCESSES else 1

    @property
    def per_instance(self) -> int:
        """Processes on each instance, at least."""
        outer = (self.launch.processes.value or 1) if self.launch.kind in STARTS_PROCESSES else 1
        return max(outer, self._started_inside)

    @property
    def _started_inside(self) -> int:
        """Processes that the launcher of the command starts on each instance, at least."""
        inner, size = self.inner, self.launch.size
        if inner is None or inner.starts is not None or size is None:
            return inner.starts or 1 if inner is not None else 1
        takes_all = "multi_gpu" in inner.options or (
            inner.name == "deepspeed" and not {"include", "exclude", "hostfile"} & inner.options.keys()
        )
        return max(size.devices, 1) if takes_all else 1

    @property
    def related(self) -> tuple[Related, ...]:
        """The place of the YAML file that names the script."""
        return (Related(self.place, "the command that starts this script"),) if self.place else ()

    def says(self, *words: str) -> bool:
        """Whether one of the words occurs in the modules or in the command."""
        command = " ".join(word.text for word in self.command.words)
        return any(
            word in command
            or any(word in other.text and word in _leave_out_comments(other) for other in self.modules)
            for word in words
        )

    def refers(self, *names: str) -> bool:
        """Whether one of these is used anywhere by name; its import alone does not count."""
        return any(not _list_references(module).isdisjoint(names) for module in self.modules)

    def imports(self, *tops: str) -> bool:
        """Whether one of these packages is imported."""
        return not self.packages.isdisjoint(tops)

    @property
    def packages(self) -> set[str]:
        """The packages that its modules import by their names."""
        return {name for module in self.modules for name in list_packages(module)}

    @property
    def names_beside(self) -> set[str]:
        """The names of its files and of the folders around them, which an import may mean."""
        paths = (PurePosixPath(module.source.path).with_suffix("") for module in self.modules)
        return {part for path in paths for part in path.parts}

    def called(self, *endings: str) -> list[tuple[Module, ast.Call]]:
        """The calls of these names in all modules; see :meth:`Module.called`."""
        return [(module, call) for module in self.modules for call in module.called(*endings)]

    def find(self, work: Callable[[Module], Iterable[T]]) -> Iterator[tuple[Module, T]]:
        """What a function finds in each module."""
        return ((module, item) for module in self.modules for item in module.once(work))


@keep
def _leave_out_comments(module: Module) -> str:
    return _COMMENT.sub("", module.text)


@keep
def _list_references(module: Module) -> set[str]:
    """The last part of every name that a file uses, as the imports resolve it."""
    names = {module.names.get(node.id, node.id) for node in module.kinds.get(ast.Name, ())}
    attributes = {node.attr for node in module.kinds.get(ast.Attribute, ())}
    return attributes | {name.rpartition(".")[2] for name in names}


_NAMELESS = ""  # the name of a step that no step of a file can have


def find_parts(tree: Tree, subject: Job | Component) -> list[Program]:
    """The programs of a job, or of a component file as it stands."""
    if isinstance(subject, Job):
        return find_programs(tree, subject)
    if subject.path is None or subject.type != "command":
        return []
    return find_programs(tree, tree.once(make_job, subject))


def make_job(_tree: Tree, component: Component) -> Job:
    """A job with one step, for a component on its own."""
    return Job(None, "command", steps={_NAMELESS: Step(_NAMELESS, "command", None, component, None)})


def find_programs(tree: Tree, job: Job) -> list[Program]:
    """The Python scripts that the steps of a job start, as far as they can be read; once a job.

    Those of built-in components are left out: they are checked as components, not in each job that uses them.
    """
    return tree.once(_find_programs, job)


def _find_programs(tree: Tree, job: Job) -> list[Program]:
    """One program for all steps that start the same script of the same component in the same way."""
    by_start: dict[object, Program | None] = {}
    met: set[Path] = set()
    repeated = 0
    for launch in read_launches(tree, job):
        if launch.step.name != _NAMELESS and tree.is_built_in(launch.step.component):
            continue  # checked elsewhere
        key = _way(launch)
        folder = ""  # of the code, in which a command runs
        for position, command in enumerate(itertools.islice(launch.commands, _COMMANDS)):
            changed = _change_folder(command, folder)
            if changed is None:
                break
            folder = changed
            earlier = by_start.get((key, position))
            if earlier is not None:
                earlier.launches.append(launch)
            if (key, position) in by_start or repeated > _REPEATED:
                continue
            program = by_start[key, position] = _program(tree, launch, command, folder)
            if program is not None:
                repeated += sum(len(module.text) for module in program.modules) * (program.path in met)
                met.add(program.path)
    return [program for program in by_start.values() if program is not None]


def list_started(tree: Tree, launch: Launch) -> list[Program]:
    """The programs that one step starts, as far as they can be read."""
    return tree.once(_index_programs, launch.job).get(launch, [])


def _index_programs(tree: Tree, job: Job) -> dict[Launch, list[Program]]:
    by_launch: dict[Launch, list[Program]] = {}
    for program in find_programs(tree, job):
        for launch in program.launches:
            by_launch.setdefault(launch, []).append(program)
    return by_launch


def _way(launch: Launch) -> object:
    """Everything by which rules distinguish two steps of one component."""
    step, counts = launch.step, (launch.processes, launch.instances, launch.workers)
    path = step.component.path if step.component else None  # a spec copies a component for each step
    variables = repr(step.environment_variables.value) if step.environment_variables is not None else None
    return path or step.component, launch.kind, tuple(count.value for count in counts), variables


def _change_folder(command: Command, folder: str) -> str | None:
    """The folder in the code that the next command runs in; None if unknown."""
    words = command.arguments
    if not words or words[0].bare not in ("cd", "pushd"):
        return folder
    to = PurePosixPath(words[1].bare) if len(words) == 2 else None
    if to is None or to.is_absolute() or ".." in to.parts or str(to)[0] in "-~" or "$" in str(to):
        return None
    return str(PurePosixPath(folder, to))


def _program(tree: Tree, launch: Launch, command: Command, folder: str) -> Program | None:
    first, component = command.program, launch.step.component
    if component is None or first is None or not _PYTHON.match(first.bare):
        return None
    named, roots = _named(command), _roots(component)
    if named is None or not roots:
        return None
    word, names = named
    names = [posixpath.normpath(PurePosixPath(folder, name)) for name in names]
    path = next((at for name in names if (at := _locate(tree, roots, name)) is not None), None)
    if path is None:
        return None
    folders = (path.parent, *(root / folder for root, _ in roots))
    imported = tree.once_for(_read_started, path, folders)
    if imported is None:
        return None
    modules, _, _, unknown = imported
    place, inner = _place(component, word), find_launcher(launch, command)
    return Program(launch, [launch], command, word, place, path, modules, folders, unknown, inner)


def _place(component: Component, word: Word) -> Span | None:
    """The place of a word of the command; in a spec, the plan's quantities after it have other names."""
    if word.source is not None:
        return word.source.span(word.start, word.end)
    node = component.command.node if component.command is not None else None
    if isinstance(node, Scalar) and node.text[word.start : word.end] == word.text:
        return node.subspan(word.start, word.end)
    return None


def _named(command: Command) -> tuple[Word, list[str]] | None:
    """The word that names the script, and the paths that it can mean."""
    words = command.arguments
    by_python = words[0].bare.rpartition("/")[2].startswith("python")
    launches = not by_python or "-m" in [word.text for word in words[1:3]]
    for position, word in enumerate(words[1:], 1):
        text = word.bare
        if "$" in text and launches and (text.startswith("-") or words[position - 1].text.startswith("-")):
            continue  # an option of the launcher
        if "$" in text:
            return None
        if words[position - 1].bare == "-m" and text.partition(".")[0] not in _LAUNCHERS:
            path = text.replace(".", "/")
            return word, [f"{path}.py", f"{path}/__main__.py"]
        if text.endswith(".py") and not text.startswith("-"):
            return word, [text]
    return None


def _roots(component: Component) -> list[tuple[Path, str | None]]:
    """The folders that a path of the command is relative to; with a name, only paths that begin with it."""
    command, folder = component.command, component.folder
    if command is None or folder is None or not isinstance(command.node, Scalar):
        return []
    code = component.code.value if component.code is not None else None
    roots: list[tuple[Path, str | None]] = []
    at = local_path(code, folder) if isinstance(code, str) else None
    if at is not None:
        roots.append((at.parent, at.name) if at.suffix == ".py" else (at, None))
    includes = component.additional_includes.value if component.additional_includes is not None else None
    for item in includes if isinstance(includes, list) else ():
        included = local_path(item, folder) if isinstance(item, str) else None
        if included is not None:
            roots.append((included.parent, included.name))
    return roots


def _locate(tree: Tree, roots: list[tuple[Path, str | None]], name: str) -> Path | None:
    parts = PurePosixPath(name).parts
    for root, only in roots:
        if parts and (only is None or parts[0] == only) and ".." not in parts:
            path = root.joinpath(*parts)
            if tree.exists(path) and not tree.is_folder(path):
                return path
    return None


def _read_started(tree: Tree, path: Path, folders: tuple[Path, ...]) -> Imported | None:
    script = read_module(tree, path)
    return read_imported(tree, script, path, folders) if script is not None else None


def read_imported(
    tree: Tree, script: Module, script_path: Path, folders: tuple[Path, ...], most: int = _MAX_MODULES
) -> Imported:
    """The script and what it imports from the folders, at most so many modules."""
    modules: dict[Path, Module] = {}
    importers: dict[Module, tuple[Module, ast.stmt]] = {}
    files: dict[tuple[str, int, Path | None], list[Path]] = {}  # relative imports also by their file
    waiting: list[tuple[Path, tuple[Module, ast.stmt] | None]] = [(script_path, None)]
    unknown: set[str] = set()
    while waiting:
        path, importer = waiting.pop(0)
        if path in modules:
            continue
        module: Module | None = script
        if path != script_path:
            module = read_module(tree, path) if len(modules) < most else None
        if module is None:
            unknown.add(_UNREAD)
            continue
        modules[path] = module
        if importer is not None:
            importers[module] = importer
        if len(module.imports) > _IMPORTS:
            unknown.add(_UNREAD)
        for name, level, statement in module.imports[:_IMPORTS]:
            key = (name, level, path if level else None)
            if key not in files:
                files[key] = list(find_imported(tree, path, folders, name, level))
            waiting += [(place, (module, statement)) for place in files[key]]
            if not files[key] and not is_known_package(name, level):
                unknown.add(_UNREAD if level else name.partition(".")[0])
    beside = {name.partition(".")[0] for (name, level, _), places in files.items() if places and not level}
    return Imported(tuple(modules.values()), importers, frozenset(beside), frozenset(unknown))


def read_module(tree: Tree, path: Path) -> Module | None:
    """A file, parsed once."""
    source = tree.text(path)
    return tree.once(_parse, source) if source is not None else None


def _parse(_tree: Tree, source: Source) -> Module | None:
    return parse_module(source)


def find_imported(tree: Tree, path: Path, folders: tuple[Path, ...], name: str, level: int) -> Iterator[Path]:
    """The files that an import beside the script runs: the packages around the module, then the module."""
    bases = [path.parents[level - 1]] if level and level <= len(path.parents) else folders
    top, *rest = name.split(".")
    for base in bases:
        at = f"{base}/{top}"  # a text: most imports are packages, of which no folder holds anything
        is_package = tree.is_folder(at)
        inners = ["/".join((at, *rest[:length])) for length in range(len(rest) * is_package + 1)]
        files = [file for inner in inners for file in (f"{inner}/__init__.py", f"{inner}.py")]
        yield from (Path(file) for file in files if tree.exists(file))
        if is_package or tree.exists(f"{at}.py"):
            return


def is_known_package(name: str, level: int) -> bool:
    """Whether an import is a package that starts no process group and shards no data by itself."""
    top = name.partition(".")[0]
    return level == 0 and (top in sys.stdlib_module_names or _KNOWN.fullmatch(top) is not None)

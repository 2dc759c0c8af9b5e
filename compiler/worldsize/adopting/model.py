"""What adopting a script gives: what the script is, its new text, and why each line changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from worldsize.base.problem import Finding
from worldsize.base.source import Source
from worldsize.base.span import Span

_ROLES: dict[Role, re.Pattern[str]] = {
    "batch_size": re.compile(r"(per_device_|per_gpu_)?(train(ing)?_)?(batch_?size|batch_?sz|bs|bsz|batch)"),
    "learning_rate": re.compile(r"(base_|init_|initial_|max_|train_)?(lr|learning_?rate|eta)"),
    "epochs": re.compile(r"(n|num|nb|max|total|no_of)?_?(train_)?(epochs?|epoch_count)"),
    "accumulation": re.compile(r"gradient_accumulation_steps|accumulate_grad_batches"),
    "checkpoints": re.compile(r"checkpoints|checkpoints?_(dir|folder)|ckpts?_(dir|folder)"),
    "data": re.compile(
        r"data|dataset|data_?(set_)?(dir|path|root|folder|file|csv)|root|root_dir|train_(dir|path|file|data|csv)"
        r"|csv(_path|_file)?|input(_dir|_path|_file)?"
    ),
    "output": re.compile(
        r"out|output|out(put)?_?(dir|path|folder|file)|(save|model|work|result|results|log)_?(dir|path|folder|file|to|out)"
        r"|save(_as|_model_path)?|checkpoint(_path|_file)?|ckpt(_path|_file)?|best_model_path"
    ),
    "seed": re.compile(r"(random_|manual_|rng_)?seed"),
}

Framework = Literal["torch", "lightning", "transformers", "accelerate", "keras"]
Role = Literal[
    "batch_size", "learning_rate", "epochs", "accumulation", "data", "output", "checkpoints", "seed"
]  # fmt: skip


class Change(Struct, frozen=True):
    """One edit: the line of the original at which it stands, the rule that asks for it, and why."""

    line: int
    rule: str | None  # such as `WS902`; None where good practice asks, but no rule
    reason: str  # one sentence
    inserted: str = ""  # the first line that it inserts; nothing if it replaces or deletes


class Obstacle(Struct, frozen=True):
    """What is left to the author, with its place. The adopted script trains correctly without it."""

    span: Span
    message: str
    help: str | None = None


class Flag(Struct, frozen=True):
    """An option of the adopted script's command line."""

    option: str  # `--batch-size`
    role: Role | None
    type: Literal["int", "float", "str"]
    default: int | float | str | None
    added: bool  # by adopting; the original does not know it
    required: bool = False
    inner: bool = False  # of a subcommand, which it follows
    aliases: tuple[str, ...] = ()  # `-b`
    words: int | None = 1  # that follow its name; None where there is no limit
    by_position: bool = False  # fire also takes it without its name

    @property
    def is_positional(self) -> bool:
        """Whether it has no name on the command line."""
        return not self.option.startswith("-")

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its names on the command line."""
        return () if self.is_positional else (self.option, *self.aliases)


class ScriptProfile(Struct, frozen=True):
    """What the text of a script tells about its training. None, or an empty tuple, is not known."""

    path: str
    framework: Framework
    flags: tuple[Flag, ...] = ()
    imports: tuple[str, ...] = ()  # top-level modules, without the standard library
    needs: tuple[tuple[str, ...], ...] = ()  # packages that calls need, of which one is enough
    reads: tuple[str, ...] = ()  # paths in the text that are read
    writes: tuple[str, ...] = ()  # paths in the text that are written
    optimizer: str | None = None  # `sgd`, `adamw`
    batch_size: int | None = None  # those of the original, which worked on one GPU
    learning_rate: float | None = None
    epochs: int | None = None
    warms_up: bool | None = False  # the learning rate, by its own code; None if a schedule may do so
    has_attention: bool = False  # its speed is not that of a convolutional network
    has_batch_norm: bool = False
    has_dropout: bool = False
    random_augmentation: bool = False
    draws_noise: bool = False  # random numbers in the model or in its steps
    shuffles: bool = True  # the loader draws the order of the rows
    keeps_last: bool = False  # each loader gives an incomplete last batch
    own_sampler: bool = False  # a sampler of the script chooses the rows
    compares_rows: bool = False  # the loss is of the rows of a batch together, as a contrastive one is
    prepared_scheduler: bool = False  # Accelerate steps its scheduler
    own_checkpoints: bool = False  # it reads the folder of its checkpoints from a variable of the job
    subcommand: str | None = None  # the one that trains
    module: str | None = None  # `package.train`, where only `python -m package.train` starts it

    def find_folder(self, script: Path) -> Path:
        """The folder from which the script is started, which holds its code."""
        return script.absolute().parents[self.module.count(".")] if self.module else script.parent

    def flag(self, role: Role) -> Flag | None:
        """The option that sets this, if there is one."""
        return next((flag for flag in self.flags if flag.role == role), None)


class Adoption(Struct, frozen=True):
    """The script before and after."""

    profile: ScriptProfile
    source: str
    text: str
    changes: tuple[Change, ...] = ()  # by line
    obstacles: tuple[Obstacle, ...] = ()
    encoding: str = "utf-8"  # to write ``text`` with: `utf-8-sig` where the file has a byte order mark


class AdoptError(Exception):
    """The script cannot be adopted. ``finding`` says why and where, ``source`` is the text to show."""

    def __init__(self, finding: Finding, source: Source) -> None:
        super().__init__(f"{finding.span}: {finding.message}")
        self.finding = finding
        self.source = source


def find_role(name: str) -> Role | None:
    """The role of `--batch-size`, `BATCH_SIZE` or `num_epochs`; None of other names."""
    word = name.lstrip("-").replace("-", "_").lower()
    return next((role for role, pattern in _ROLES.items() if pattern.fullmatch(word)), None)

"""What a script reads from beside it: data becomes an input of the job, small files go with the code."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from worldsize.adopting.model import Adoption, Flag, ScriptProfile
from worldsize.adopting.options.arguments import find_given, read_arguments
from worldsize.adopting.source.reading import MOST_BYTES
from worldsize.adopting.source.script import Script
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import list_scalars
from worldsize.scripts.module import constant_value, parse_text

_SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf")
_ROWS = re.compile(r"(?:.*_)?(?:data|dataset|train|val|valid|validation|eval|test|dev)(?:_.*)?")
_WRITTEN = re.compile(
    r"(?:.*_)?(?:out|output|save|log|logs|run|runs|result|results|cache|work|model)(?:_.*)?"
)
_OUTPUTS = (".pt", ".pth", ".ckpt", ".keras", ".h5", ".safetensors", ".onnx", ".log", ".png", ".svg", ".pdf")
_CONFIGURED = (".yaml", ".yml", ".json")
_AS_OPTION = "read its path from an option, whose default adopt makes an input"
_LISTS = ("listdir", "scandir", "glob", "iglob", "rglob", "iterdir", "walk", "ImageFolder", "load_from_disk")
_NAME = re.compile(r"[\w./\\ -]{1,200}")


class Input(Struct, frozen=True):
    """An option of the script that names a file or folder which is here."""

    flag: Flag
    path: Path

    @property
    def name(self) -> str:
        """The input of the job."""
        return re.sub(r"\W", "_", self.flag.option.lstrip("-"))


def list_inputs(
    profile: ScriptProfile, script: Path, arguments: Sequence[str], source: Path
) -> Iterator[Input]:
    """What options beside that for the data name, without settings that go with the code in ``source``."""
    for flag in profile.flags:
        name = flag.option.lstrip("-").replace("-", "_").lower()
        if flag is profile.flag("data") or flag.role not in (None, "data") or flag.added:
            continue
        path = find_path(profile, flag, script, arguments)
        if path is None:
            continue
        value = _find_value(profile, flag, arguments)
        is_meant = _ROWS.fullmatch(name) or "/" in value or value != flag.default
        if path.is_dir() and (_WRITTEN.fullmatch(name) or not is_meant):
            continue
        is_setting = path.suffix in _SETTINGS and not _ROWS.fullmatch(name)
        if not (path.is_file() and is_setting and goes_with_code(path, source)):
            yield Input(flag, path)


def find_path(profile: ScriptProfile, flag: Flag, script: Path, arguments: Sequence[str]) -> Path | None:
    """The file or folder that an option names on the command line, else by its default; None if none is here.

    It is looked for where the script is started; what the command line names, also in the current folder.
    """
    value = _find_value(profile, flag, arguments)
    if not value.strip(". "):
        return None
    places = (profile.find_folder(script) / value, *([Path(value)] if value != flag.default else []))
    return next((place.absolute() for place in places if _exists(place)), None)


def _find_value(profile: ScriptProfile, flag: Flag, arguments: Sequence[str]) -> str:
    argument = find_given(flag, profile.flags, arguments, profile.subcommand)
    return argument or (flag.default if isinstance(flag.default, str) else "")


def list_settings(adoption: Adoption, script: Path, arguments: Sequence[str]) -> Iterator[Path]:
    """The files beside the script that its text, or its command line, names."""
    profile = adoption.profile
    names = {
        node.value
        for node in ast.walk(parse_text(adoption.source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names |= {word.rpartition("=")[2] for word in arguments}
    for name in sorted(names - set(profile.writes)):
        path = script.parent / name
        wanted = path.suffix not in ("", ".py") and (path.suffix not in _OUTPUTS or name in profile.reads)
        if wanted and _NAME.fullmatch(name) and _exists(path) and path.is_file():
            yield path


def leave_files(script: Script) -> None:
    """Say which files and folders of the text a job does not have."""
    folder = Path(script.module.source.path).parent
    for name, call in script.module.calls:
        last = name.rpartition(".")[2]
        for node in call.args[:1] if last in (*_LISTS, "open") else ():
            value = constant_value(node)
            if not isinstance(value, str) or not value.strip("./ ") or Path(value).is_absolute():
                continue
            path = folder / value
            goes_along = path.is_file() and path.stat().st_size <= MOST_BYTES and not value.startswith("..")
            if not _exists(path) or goes_along:
                continue
            if not script.is_replaced(node):
                what = "folder" if path.is_dir() else "file"
                script.leave(node, f"the {what} `{value}` is here, and no input of the job", _AS_OPTION)


def leave_paths_behind(script: Script, defaults: Collection[object]) -> None:
    """Say which large files, and paths from the folder above, a job does not have.

    Those of options become inputs. The others stand in the text, or in a configuration that it names.
    """
    folder = Path(script.module.source.path).parent
    reported = {(obstacle.span.line, obstacle.span.column) for obstacle in script.obstacles}
    named = {value for value in defaults if isinstance(value, str)}
    for node in script.nodes(ast.Constant):
        value = node.value
        if not isinstance(value, str) or not _NAME.fullmatch(value) or value in defaults:
            continue
        span = script.module.span(node)
        is_known = script.is_replaced(node) or (span.line, span.column) in reported
        if not is_known and _stays_behind(folder, value):
            what = "folder" if (folder / value).is_dir() else "file"
            script.leave(node, f"the {what} `{value}` is here, and no input of the job", _AS_OPTION)
            named.add(value)
    for node, file, value in _list_configured(script, folder):
        if value not in named and _stays_behind(folder, value):
            message = f"`{value}`, which `{file}` names, is here, and no input of the job"
            script.leave(node, message, _AS_OPTION)


def _stays_behind(folder: Path, value: str) -> bool:
    """Whether a path names what is here, and does not go with the code."""
    path = folder / value
    if not value.strip("./") or not _exists(path):
        return False
    is_large = path.is_file() and path.stat().st_size > MOST_BYTES and path.suffix not in _OUTPUTS
    return value.startswith("../") or is_large


def _list_configured(script: Script, folder: Path) -> Iterator[tuple[ast.Constant, str, str]]:
    """The paths in the configurations that the text names, with the place of that name."""
    for node in script.nodes(ast.Constant):
        name = node.value
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.endswith(_CONFIGURED):
            continue
        path = folder / name
        if _exists(path) and path.is_file() and goes_with_code(path, folder):
            texts = dict.fromkeys(scalar.text for scalar in list_scalars(yaml.load(str(path)).root))
            yield from ((node, name, text) for text in texts if _NAME.fullmatch(text))


def goes_with_code(path: Path, source: Path) -> bool:
    """Whether a file is small, and in the folder of the code."""
    return (
        os.access(path, os.R_OK)
        and path.stat().st_size <= MOST_BYTES
        and path.resolve().is_relative_to(source.resolve())
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no name of a file
        return False


def choose_data_option(profile: ScriptProfile, arguments: Sequence[str]) -> ScriptProfile:
    """The script with an option for its data: if none is named so, the only one that needs a value."""
    read = read_arguments(profile.flags, arguments, profile.subcommand)
    named = [argument.flag for argument in read if argument.is_named]
    lacking = [
        flag
        for flag in profile.flags
        if flag.required and flag.role is None and flag.type == "str" and flag not in named
    ]
    if profile.flag("data") is not None or len(lacking) != 1:
        return profile
    taking = structs.replace(lacking[0], role="data")
    return structs.replace(
        profile, flags=tuple(taking if flag is lacking[0] else flag for flag in profile.flags)
    )


def find_data(profile: ScriptProfile, script: Path, arguments: Sequence[str] = ()) -> Path | None:
    """The data that the option for it names, where that lies here."""
    flag = profile.flag("data")
    return find_path(profile, flag, script, arguments) if flag is not None else None


def explain_missing(profile: ScriptProfile, data: Path | None, arguments: Sequence[str]) -> str | None:
    """Why a script has no data to train on here; None if it has, or needs none that is known."""
    flag = profile.flag("data")
    argument = find_given(flag, profile.flags, arguments, profile.subcommand)
    if flag is None or data is not None or argument is not None:
        return None
    if flag.required:
        return f"`{flag.option}` has no default: name the data with `--data PATH`"
    if flag.default:
        return f"its data `{flag.default}` is not here: name it with `--data PATH`"
    return None

"""Lines that only a notebook runs: `%matplotlib inline`, `!pip install …`, `!mkdir -p out`."""

from __future__ import annotations

import ast
import re
import shlex

from worldsize.adopting.source.header import find_last_import
from worldsize.adopting.source.script import Script
from worldsize.scripts.module import Module, constant_value

_MAGICS = frozenset(
    {"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "pylab", "pip", "conda"}
    | {"tensorboard", "pwd", "ls", "who", "whos", "history", "precision", "xmode", "watermark"}
)
_SHOWS = frozenset(
    {"ls", "pwd", "cat", "head", "tail", "wc", "du", "df", "free", "tree", "file", "stat", "echo", "date"}
    | {"nvidia-smi", "lscpu", "uname", "hostname", "whoami", "which", "nproc", "grep"}
)
_INSTALLS = re.compile(r"(?:python3? -m )?(?:pip3?|conda|mamba) |apt(?:-get)? ")
_SPECIAL = re.compile(r"[<>;&`${}\n]")
_REASON = "`get_ipython` is there in notebooks only"


def refuse_magics(script: Script) -> None:
    """Refuse a line of a notebook that does more than set it up or show something.

    Raises:
        AdoptError: There is one.
    """
    for call in script.module.called("get_ipython"):
        if not _is_display(script.module, call) and _read_folders(script, call) is None:
            help_ = "take this line out, and do in Python what the training needs of it"
            raise script.refuse(call, _REASON, help_)


def drop_magics(script: Script) -> None:
    """Take out the lines that set up a notebook, and make folders in Python; others have been refused."""
    for call in script.module.called("get_ipython"):
        statement = find_magic(script.module, call)
        if statement is None:
            continue
        folders = _read_folders(script, call)
        if folders is None:
            script.delete(statement, None, _REASON)
            continue
        first, *others = [f'os.makedirs("{folder}", exist_ok=True)' for folder in folders]
        script.replace(statement, first, None, _REASON)
        if others:
            script.insert_after(statement, others, None, _REASON)


def print_displays(script: Script) -> None:
    """Print what `display` shows, which a notebook brings and a script has to import."""
    if "display" in script.module.names or script.module.stores("display"):
        return
    for call in script.module.called("display"):
        if isinstance(call.func, ast.Name):
            script.replace(call.func, "print", None, "`display` is there in notebooks only")


def _is_display(module: Module, call: ast.Call) -> bool:
    """Whether a line sets up a notebook or shows something: ``%matplotlib inline``, ``!pip …``, ``!ls``."""
    method, text = _read_line(module, call)
    if method in ("run_line_magic", "magic") and text is not None:
        return text.lstrip("%").split(" ")[0] in _MAGICS
    if method != "system" or text is None:
        return False
    if _INSTALLS.match(text):
        return True
    parts = [part.split() for part in text.split("|")]
    return not _SPECIAL.search(text) and all(part and part[0] in _SHOWS for part in parts)


def _read_folders(script: Script, call: ast.Call) -> list[str] | None:
    """The folders of ``!mkdir -p out logs``; None of another line, and before the imports."""
    method, text = _read_line(script.module, call)
    if method != "system" or text is None or _SPECIAL.search(text):
        return None
    try:
        command, *words = shlex.split(text)
    except ValueError:
        return None
    folders = [word for word in words if word not in ("-p", "-v", "-pv")]
    last = find_last_import(script)
    early = last is None or call.lineno < last.lineno
    plain = all(re.match(r"[\w./]", folder) and not re.search(r'["*?|]', folder) for folder in folders)
    return folders if command == "mkdir" and folders and plain and not early else None


def _read_line(module: Module, call: ast.Call) -> tuple[str | None, str | None]:
    """The method that runs a line of a notebook, and the line."""
    statement = find_magic(module, call)
    made = statement.value if statement is not None else None
    words = [constant_value(argument) for argument in made.args] if isinstance(made, ast.Call) else []
    text = words[0] if words and isinstance(words[0], str) and words[0].strip() else None
    return getattr(module.parents.get(call), "attr", None), text.strip() if text is not None else None


def find_magic(module: Module, call: ast.Call) -> ast.Expr | None:
    """The statement ``get_ipython().method(…)`` of a call of ``get_ipython``."""
    above = module.parents.get(call)
    method = module.parents.get(above) if isinstance(above, ast.Attribute) else None
    statement = module.parents.get(method) if isinstance(method, ast.Call) and method.func is above else None
    return statement if isinstance(statement, ast.Expr) else None

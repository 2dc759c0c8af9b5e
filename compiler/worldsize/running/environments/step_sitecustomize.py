"""Restricts what a step's Python installs to the step's layer; copied as ``sitecustomize``.

``python`` on a step's PATH is that of its layer. A path in a command, or in the first line of an installed
program, leads to the Python that runs Worldsize instead, which pip must not change. An installer with an
explicit target (``--target``, ``--prefix``) may not write to the folders of that Python. Python imports this
module at its start, before any code of the step. It imports the standard library only.

``WORLDSIZE_LAYER`` is the layer, ``WORLDSIZE_PYTHON`` the prefix and the version of the Python below it, and
``WORLDSIZE_READ_ONLY`` the folders of its packages and programs. ``WORLDSIZE_MLFLOW_SERVER`` and
``WORLDSIZE_MLFLOW_TOKEN`` are set where a workspace is served.
"""

from __future__ import annotations

import errno
import os
import sys

INSTALLERS = {
    *("pip._internal", "installer", "distutils.command.install", "setuptools.command.install"),
    *("setuptools.command.develop", "setuptools.command.easy_install"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# The positions of the paths in the audit events that change files.
PATHS = {
    **dict.fromkeys(("open", "os.chmod", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"), slice(1)),
    **dict.fromkeys(("os.link", "os.symlink"), slice(1, 2)),
    "os.rename": slice(2),
    "shutil.rmtree": slice(1),
}
REFUSED = (
    "A step cannot change the Python that runs Worldsize. Install without --target, --prefix and --root: what"
    " pip installs goes into the step's own layer"
)


class ReadOnly:
    """Prevents an installer from changing files in some folders, as soon as one is imported.

    It is the first of Python's import finders, and never finds a module.
    """

    def __init__(self, folders: list[str]) -> None:
        self._folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in folders)  # noqa: PTH118

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Start to watch if this is an installer; other modules are not slowed down."""
        if name in INSTALLERS and self in sys.meta_path:
            sys.meta_path.remove(self)
            sys.addaudithook(self._refuse)

    def _refuse(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in PATHS or (event == "open" and not self._writes(arguments[2])):
            return
        for path in arguments[PATHS[event]]:
            if isinstance(path, (str, bytes, os.PathLike)) and self._holds(os.fsdecode(path)):
                raise _refusal(os.fsdecode(path))

    def _writes(self, flags: object) -> bool:
        return isinstance(flags, int) and bool(flags & WRITING)

    def _holds(self, path: str) -> bool:
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
        real = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        return real.startswith(self._folders) and "__pycache__" not in real


def _refusal(path: str) -> Exception:
    # pip shows a traceback for most other exceptions.
    pip = getattr(sys.modules.get("pip._internal.exceptions"), "InstallationError", None)
    refusal: Exception = pip(f"{REFUSED} ({path})") if pip else OSError(errno.EROFS, REFUSED, path)
    return refusal


def protect() -> None:
    """Prevent installers from changing the Python below the layer."""
    folders = os.environ.get("WORLDSIZE_READ_ONLY")
    if folders and not any(isinstance(finder, ReadOnly) for finder in sys.meta_path):
        sys.meta_path.insert(0, ReadOnly(folders.split(os.pathsep)))


def hand_over() -> None:
    """Become the layer's Python, with the same arguments, if this is the Python below it."""
    layer = os.environ.get("WORLDSIZE_LAYER")
    version = f"{sys.prefix}{os.pathsep}{sys.version_info[0]}.{sys.version_info[1]}"
    if layer and version == os.environ.get("WORLDSIZE_PYTHON"):
        python = f"{layer}/bin/python"
        if os.access(python, os.X_OK):  # else the step has ended, and its remaining processes end soon
            os.execv(python, [python, *sys.orig_argv[1:]])  # noqa: S606


def redirect_records() -> None:
    """Lead an MLflow that the step has installed to the workspace's server.

    The database of the run belongs to the MLflow of Worldsize, and other versions cannot open it.
    """
    server, layer = os.environ.get("WORLDSIZE_MLFLOW_SERVER"), os.environ.get("WORLDSIZE_LAYER")
    tracked = os.environ.get("MLFLOW_TRACKING_URI", "").startswith("sqlite:")
    packages = f"{layer}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if server and layer and tracked and os.access(f"{packages}/mlflow/__init__.py", os.F_OK):
        os.environ |= {"MLFLOW_TRACKING_URI": server, "MLFLOW_REGISTRY_URI": server}
        os.environ["MLFLOW_TRACKING_TOKEN"] = os.environ.get("WORLDSIZE_MLFLOW_TOKEN", "")


def import_next() -> None:
    """Import the ``sitecustomize`` that this module hides, and remove this folder from the path."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - starts faster
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]  # noqa: PTH100
    this_module = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this_module)


if __name__ == "sitecustomize":
    hand_over()
    protect()
    redirect_records()
    import_next()
elif __name__ == "isolated":  # a layer's Python that is told to read no variables imports no module for them
    protect()

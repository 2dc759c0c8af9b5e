"""`worldsize.adopt`: reads a script, proves its adoption, and writes what a job of it needs."""

from __future__ import annotations

import difflib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from worldsize import checking
from worldsize.adopting.adopt import adopt_script
from worldsize.adopting.model import Adoption, ScriptProfile
from worldsize.adopting.options.arguments import add_data
from worldsize.adopting.project.files import (
    CODE,
    Project,
    find_existing,
    list_missing,
    make_project,
    write_files,
)
from worldsize.adopting.project.inputs import choose_data_option, explain_missing, find_data
from worldsize.adopting.project.spec import CONDA_FILE, ProjectRequest, Target, choose_size, find_size
from worldsize.adopting.proving.prove import SECONDS, STEPS, Measured, Proof, Request
from worldsize.adopting.proving.prove import prove as prove_adoption
from worldsize.adopting.source.reading import MOST_BYTES
from worldsize.base import untrusted
from worldsize.base.problem import HelpfulError
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import describe_os_error
from worldsize.checking import CheckedSpec, Report
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.errors import OutputError, SpecError
from worldsize.documents.yaml.nodes import Scalar, find_node, list_entries

Place = str | os.PathLike[str]


class AlreadyAdoptedError(OutputError):
    """The script is adopted, and its spec is there: nothing is written."""

    def __init__(self, message: str, help_: str, request: ProjectRequest, project: Project) -> None:
        super().__init__(message, help_)
        self.request = request
        self.project = project


class ProofError(HelpfulError):
    """The proof cannot be tried here. ``help`` says what to do."""


class Prepared(Struct, frozen=True):
    """An adoption before its proof."""

    request: ProjectRequest
    unproven: str | None  # why there is no proof
    lacking: tuple[str, ...]  # packages that the environment of an adopted script does not install


class Adopted(Struct, frozen=True):
    """A script for several processes, with its proof and its job."""

    adoption: Adoption  # the script before and after, what changes and why, and what is left to the author
    proof: Proof | None  # None if it was skipped
    report: Report  # of the spec and the adopted script, in the user's own files
    checked: CheckedSpec | None  # None if the spec has errors
    spec: str
    written: tuple[Path, ...]
    unknown: tuple[str, ...]  # modules that the script imports and no package here has
    target: Target

    @property
    def failed(self) -> bool:
        """Whether the spec has errors, or the loss curves differ without a known cause."""
        return bool(self.report.errors) or not (self.proof is None or self.proof.holds)


def adopt(
    script: Place,
    *,
    data: Place | None = None,
    output: Place | None = None,
    write: bool = False,
    prove: bool = True,
    steps: int = STEPS,
    seconds: float = SECONDS,
    instance_type: str | None = None,
    instance_count: int = 1,
    arguments: Sequence[str] = (),
    show: Callable[[Prepared | Proof], None] | None = None,
) -> Adopted:
    """Make a training script for one GPU a distributed one, prove its loss curve, and plan its spec.

    The proof runs copies of the script with this Python: the original in one process, the adopted one in
    two. Nothing is written if the curves differ or the spec has errors.

    Args:
        script: The script.
        data: The file or folder that it reads.
        output: A new or empty folder for the adopted copy, its environment and its spec.
        write: Whether to edit the script in place, and to write its spec beside it.
        prove: Whether to run the proof.
        steps: Of the proof.
        seconds: For each of the two runs of the proof.
        instance_type: The VM size of the job; by default one with several GPUs.
        instance_count: Of the job.
        arguments: Other words of the script's command line.
        show: Called with the adoption before the proof starts, and with the proof at its end.

    Raises:
        AdoptError: The script cannot be adopted.
        AlreadyAdoptedError: With ``write``, if the script is adopted and its spec is there.
        OutputError: Files are in the way, or cannot be written. Nothing was written.
        ProofError: The proof needs a framework that is not installed.
        UnknownSizeError: ``instance_type`` is not a VM size.
        OSError: A file cannot be read, or a process cannot be started.
    """
    output = None if output is None else Path(output)
    size = find_size(instance_type) if instance_type else choose_size(instance_count)
    request = _make_request(Path(script), data, Target(size, instance_count), tuple(arguments))
    lacking = _check_places(request, output, writes=write)
    skipped = explain_missing(request.adoption.profile, request.data, request.arguments)
    if not prove:
        skipped = "`--no-run`" if skipped is None else f"`--no-run`; {skipped}"
    if show is not None:
        show(Prepared(request, skipped, lacking))
    proof = None if skipped is not None else _prove(request, steps, seconds)
    if proof is not None:
        if show is not None:
            show(proof)
        request = replace(request, measured=proof.measured or Measured())
    return _finish(request, proof, output, writes=write)


def _finish(request: ProjectRequest, proof: Proof | None, output: Path | None, *, writes: bool) -> Adopted:
    """Check and plan the project, and write it if nothing speaks against it."""
    beside = place_project(request)
    report, checked = _check_project(request, output, writes=writes)
    spec = beside.files[beside.spec].decode()
    adopted = Adopted(request.adoption, proof, report, checked, spec, (), beside.unknown, request.target)
    if adopted.failed or (output is None and not writes):
        return adopted
    project = beside if output is None else make_project(request, output, beside=False)
    return replace(adopted, written=_write(request, project, edits=writes))


def _make_request(
    script: Path, data: Place | None, target: Target, arguments: tuple[str, ...]
) -> ProjectRequest:
    adoption = adopt_script(script, arguments)
    if data is None:
        place = find_data(adoption.profile, script, arguments)
    else:
        place = Path(data)
        adoption = replace(adoption, profile=choose_data_option(adoption.profile, arguments))
        arguments = add_data(adoption.profile, arguments, place)
    return ProjectRequest(adoption, script, target, place and place.absolute(), arguments)


def _check_places(request: ProjectRequest, output: Path | None, *, writes: bool) -> tuple[str, ...]:
    """The packages that the environment of an adopted script does not install, if nothing is to be written.

    Raises:
        OutputError: Files are in the way.
    """
    if output is not None:
        if output.is_dir() and any(output.iterdir()):
            raise OutputError(f"`{output}` is not empty", "name a new folder")
        return ()
    project = place_project(request)
    is_adopted = request.adoption.text == request.adoption.source
    if not writes:
        is_complete = is_adopted and (project.folder / CONDA_FILE).is_file()
        return tuple(list_missing(project)) if is_complete else ()
    existing = find_existing(project.folder, project.files)
    if existing:
        listed = ", ".join(f"`{project.folder / name}`" for name in existing)
        exist = f"exist{'s' * (len(existing) == 1)} already"
        message = f"{listed} {exist}, and adopt replaces nothing but the script"
        help_ = "move it away, or write the spec elsewhere with `-o DIR`"
        if is_adopted and len(existing) == len(project.files):
            raise AlreadyAdoptedError(message, help_, request, project)
        raise OutputError(message, help_)
    return ()


def _prove(request: ProjectRequest, steps: int, seconds: float) -> Proof:
    is_keras = request.adoption.profile.framework == "keras"
    framework, extra = ("tf_keras", "tensorflow") if is_keras else ("torch", "run")
    if importlib.util.find_spec(framework) is None:
        help_ = f"pip install 'worldsize[{extra}]', or skip it with `--no-run`"
        raise ProofError(f"the proof needs {framework}", help_)
    original = untrusted.read_bytes(request.script)
    return prove_adoption(
        Request(request.adoption, request.script, original, request.arguments, request.data, steps, seconds)
    )


def _check_project(
    request: ProjectRequest, output: Path | None, *, writes: bool
) -> tuple[Report, CheckedSpec | None]:
    """Check and plan the project in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="worldsize-adopt-") as staging:
        folder = Path(staging)
        project = make_project(request, folder, beside=False)
        write_files(folder, project.files)
        report = _name_own_files(checking.check([folder]), folder, request, output, writes=writes)
        try:
            return report, checking.check_spec(folder / project.spec)
        except SpecError:  # the report says why
            return report, None


def _write(request: ProjectRequest, project: Project, *, edits: bool) -> tuple[Path, ...]:
    """Write the files of a project, and the script if it is to be edited."""
    replaced = {}
    if edits:
        before = untrusted.read_bytes(request.script)
        after = request.adoption.text.encode(request.adoption.encoding)
        replaced = {request.script: (before, after)} if before != after else {}
    try:
        write_files(project.folder, project.files, replaced)
    except OSError as error:
        raise OutputError(f"`{error.filename}` cannot be written: {describe_os_error(error)}") from None
    return (*replaced, *(project.folder / name for name in project.files))


_ARGUMENTS = "give it in `--arguments`, which become part of the command, or data by `--data PATH`"


class _Places(Struct, frozen=True):
    """Where the files of a temporary folder are, or will be: below ``output``, else beside the script."""

    staging: Path
    folder: Path
    output: Path | None
    script: str
    lines: dict[int, int]  # of the script as it is, by the lines of its adopted text; empty if it is written

    def name(self, path: str) -> str:
        """The path of a file for its user."""
        inside = os.path.relpath(path, self.staging)
        if inside.startswith(os.pardir):
            return path
        if self.output is not None:
            return os.path.normpath(self.output / inside)
        return os.path.normpath(self.folder / inside.removeprefix(f"{CODE}/"))

    def move(self, span: Span) -> Span:
        """A place in a file of its user."""
        path = self.name(span.path)
        if path != self.script or not self.lines:
            return replace(span, path=path)
        line = self.lines.get(span.line)
        if line is None:  # the diff adds it after this one
            line = self.lines[max((line for line in self.lines if line < span.line), default=min(self.lines))]
            return Span(path, line, 1, line, 1)
        return replace(span, path=path, line=line, end_line=line + span.end_line - span.line)

    def replace_text(self, text: str | None) -> str | None:
        """A sentence without the temporary folder."""
        return text and text.replace(f"{self.staging}/{CODE}/", "").replace(f"{self.staging}/", "")

    def move_finding(self, finding: Diagnostic) -> Diagnostic:
        """A finding with all its places."""
        return replace(
            finding,
            span=self.move(finding.span),
            message=self.replace_text(finding.message),
            help=_ARGUMENTS if finding.slug == "argument-missing" else self.replace_text(finding.help),
            related=tuple(replace(related, span=self.move(related.span)) for related in finding.related),
            fix=None,  # of a text that is not there
        )


def _name_own_files(
    report: Report, staging: Path, request: ProjectRequest, output: Path | None, *, writes: bool
) -> Report:
    """The report of a project with the user's own files, those below ``output`` if that is given.

    The script has its adopted text if ``writes``, unless an error keeps it as it is.
    """
    adoption = request.adoption
    script = os.path.normpath(request.script)
    stays = output is None and not (writes and not report.errors)
    lines = _match_lines(adoption) if stays else {}
    places = _Places(staging, adoption.profile.find_folder(request.script), output, script, lines)
    sources = {
        places.name(path): Source(places.name(path), source.text) for path, source in report.sources.items()
    }
    if stays:
        sources[script] = Source(script, adoption.source)
    return replace(
        report,
        diagnostics=tuple(map(places.move_finding, report.diagnostics)),
        sources=sources,
        files=tuple(map(places.name, report.files)),
    )


def _match_lines(adoption: Adoption) -> dict[int, int]:
    """The lines of the script as it is, by the lines of its adopted text that are the same."""
    before, after = adoption.source.splitlines(), adoption.text.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    } or {1: 1}


def place_project(request: ProjectRequest) -> Project:
    """The project of a script where its spec is already, else beside the script."""
    profile, script = request.adoption.profile, request.script
    folder = profile.find_folder(script).absolute()
    spec = find_spec(profile, script)
    if spec is None:
        return make_project(request, profile.find_folder(script), beside=True)
    home = spec.parent if script.is_absolute() else Path(os.path.relpath(spec.parent))
    named = replace(request, name=spec.stem)
    return make_project(named, home, beside=spec.parent == folder)


def find_spec(profile: ScriptProfile, script: Path) -> Path | None:
    """The spec with a step that starts the script: in its folder, or in the one above, as `-o` leaves it."""
    folder = profile.find_folder(script).absolute()
    started = profile.module or script.absolute().relative_to(folder).as_posix()
    for home in (folder, folder.parent):
        for path in sorted(home.glob("*.yml")):
            if path.is_file() and path.stat().st_size <= MOST_BYTES and _starts(path, folder, started):
                return path
    return None


def _starts(path: Path, folder: Path, started: str) -> bool:
    for _, step in list_entries(find_node(yaml.load(str(path)).root, "steps")):
        code, command = find_node(step, "code"), find_node(step, "command")
        if isinstance(code, Scalar) and isinstance(command, Scalar):
            is_here = os.path.realpath(path.parent / code.text) == os.path.realpath(folder)
            if is_here and started in command.text.split():
                return True
    return False

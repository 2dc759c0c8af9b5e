"""Every script is adopted and proven: the original in one process, the adopted one in two."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from shared_golden import update_text

pytestmark = pytest.mark.run

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.py"))
IN_EVERY_TEST = {"function_style", "trainer_classifier"}  # a loop of its own, and a library's
VERDICTS = Path(__file__).with_name("verdicts.txt")
WARM = Path(__file__).parents[1] / "components" / "warm_start.py"
# What the scripts import; a fork has it loaded. TensorFlow does not survive a fork.
LIBRARIES = ("torch", "torch._dynamo", "sklearn.datasets", "torch.utils.flop_counter")
MORE = {
    "accelerate": ("accelerate",),
    "lightning": ("lightning",),
    "trainer": ("transformers", "transformers.trainer", "accelerate"),
}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """Words before a command of Python, for it to find torch and other libraries loaded."""
    folder = tmp_path_factory.mktemp("warm")
    servers: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def prefix(*libraries: str) -> list[str]:
        path = folder / ("-".join(libraries) or "torch")
        if libraries not in servers:
            command = [sys.executable, str(WARM), "serve", str(path), *LIBRARIES, *libraries]
            servers[libraries] = subprocess.Popen(command, stdout=subprocess.PIPE)
            with servers[libraries].stdout as answers:  # type: ignore[union-attr]
                assert answers.readline() == b"ready\n"
        return [sys.executable, "-S", "-E", str(WARM), "call", str(path)]

    yield prefix
    for server in servers.values():
        server.terminate()
        server.wait(20)


def read_verdicts(text: str) -> dict[str, str]:
    return {line.split()[0]: line for line in text.splitlines()}


def replace_line(text: str, name: str, line: str) -> str:
    known = read_verdicts(text) | {name: line}
    return "".join(f"{known[each]}\n" for each in sorted(known))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.smoke] * (path.stem in IN_EVERY_TEST))
        for path in SCRIPTS
    ],
)
def test_the_adopted_script_follows_the_curve(
    script: Path, warm: Callable[..., list[str]], update_golden: bool
) -> None:
    from worldsize.adopting.adopt import adopt_script
    from worldsize.adopting.proving.launch import launch_training
    from worldsize.adopting.proving.prove import Request, prove

    adoption = adopt_script(script)
    kind = script.stem.partition("_")[0]
    launch = launch_training
    if kind != "keras":
        launch = partial(launch_training, prefix=warm(*MORE.get(kind, ())))  # type: ignore[assignment]
    proof = prove(Request(adoption, script, script.read_bytes(), seconds=200), launch)

    assert proof.failed is None, "\n".join([proof.failed.message, *proof.failed.lines])
    assert proof.comparison is not None
    found = proof.comparison
    reasons = "; ".join(found.reasons)
    line = f"{script.stem:<24} {found.verdict:<5} {len(found.steps):>3} steps  {reasons}".rstrip()
    if update_golden:
        update_text(VERDICTS, lambda text: replace_line(text, script.stem, line))
    known = read_verdicts(VERDICTS.read_text(encoding="utf-8"))
    assert known[script.stem] == line, (found.faults, found.first_outside, found.worst)
    assert found.verdict != "different", (found.faults, found.first_outside)

"""Every script is adopted and proven: the original in one process, the adopted one in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from shared_golden import update_text
from warm_servers import WarmServers, call_command

pytestmark = pytest.mark.run

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.py"))
IN_EVERY_TEST = {"function_style", "trainer_classifier"}  # a loop of its own, and a library's
VERDICTS = Path(__file__).with_name("verdicts.txt")
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
    servers = WarmServers(tmp_path_factory.mktemp("warm"))
    yield lambda *libraries: call_command(
        servers.find(libraries, base=LIBRARIES) if libraries else servers.find(LIBRARIES)
    )
    servers.stop()


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
    from worldsize.adopting.proving.prove import Request, launch_training, prove

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

"""Throw mutated files at all that reads them after the checker: `python tests/fuzz/layers.py --seconds 600`.

Six targets: ``compile`` (specs), ``prepare`` (what a run decides about native jobs before anything starts),
``manifest`` (tables of contents of shards), ``arrow`` (the shards themselves), ``card`` (what a checkpoint
says it is) and ``deepspeed`` (configurations). A case may be refused by the errors that its target promises;
any other exception, and any that takes long, is a failure. The same seed and number make a case again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import worldsize
from worldsize.base.source import Source
from worldsize.documents.errors import OutputError, SpecError
from worldsize.documents.yaml import json_text
from worldsize.running.model.errors import RunError
from worldsize.running.prepare import preparation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "components" / "_shared"))

from wsshards import manifest, terms  # noqa: E402
from wsshards import reader as data  # noqa: E402
from wsshards.errors import UserError  # noqa: E402
from wstrain.checkpoint import checkpoint_folder  # noqa: E402

JSON_PIECES = [
    "null", "true", "-1", "0", "1e999", "NaN", "-Infinity", '"x"', '""', "[]", "{}", "[[[[[[", '{"a": {"a": ',
    "99999999999999999999999999", '"../../etc/passwd"', '"/etc/passwd"', '"\\ud800"', '"\\u0000"', "1.5",
    '"train/shard-00000.arrow"', ",", ":", "}", "]", '"int99"', "[1, [2]]", "[0]", "[-1]",
    "[1000000000, 1000000000]",
]  # fmt: skip


def neighbour(name: str) -> ModuleType:
    """A program beside this one."""
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CHECK = neighbour("check")


class Targets:
    """What cases are thrown at; each method makes one case and runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "pipelines").glob("*.yml"))]
        self.specs = texts
        known: list[str] = CHECK.seeds()
        self.jobs = [text for text in known if "jobs:" in text or "\ncommand:" in text]
        self.shards = folder / "shards"
        self.document = self._make_shards()
        self.configs: list[str] = CHECK.case_files("ds_config.json")

    def compile(self, draw: random.Random) -> None:
        """A mutated spec is compiled."""
        Path("case.yml").write_bytes(CHECK.mutated(draw, self.specs))
        worldsize.compile("case.yml", "out")

    def prepare(self, draw: random.Random) -> None:
        """A mutated job or spec is prepared for a run; nothing is started."""
        Path("case.yml").write_bytes(CHECK.mutated(draw, self.jobs if draw.random() < 0.7 else self.specs))
        preparation.prepare(Path("case.yml"), Path("pipeline"))

    def manifest(self, draw: random.Random) -> None:
        """A mutated table of contents, over shards that are whole."""
        (self.shards / manifest.MANIFEST_NAME).write_bytes(mutated_json(draw, self.document))
        read_all(self.shards, checksums=draw.random() < 0.5)

    def arrow(self, draw: random.Random) -> None:
        """A shard with bits flipped or bytes cut; without checksums the reader itself must notice."""
        (self.shards / manifest.MANIFEST_NAME).write_text(self.document, encoding="utf-8")
        path = self.shards / "train" / "shard-00000.arrow"
        whole = path.read_bytes()
        try:
            path.write_bytes(flipped(draw, whole))
            read_all(self.shards, checksums=False)
        finally:
            path.write_bytes(whole)

    def card(self, draw: random.Random) -> None:
        """A mutated card of a checkpoint; half have a right digest, so that what follows is reached."""
        folder = self.folder / "step-00000007"
        folder.mkdir(exist_ok=True)
        content = {
            "step": 7,
            "identity": {"world_size": 2, "seed": 1},
            "files": {"state.pt": {"bytes": 3, "sha256": "a" * 64}},
        }
        text = mutated_json(draw, json.dumps(content, indent=1))
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and draw.random() < 0.5:
            document.pop("sha256", None)
            plain = json.dumps(document, sort_keys=True).encode("utf-8", "surrogatepass")
            text = json.dumps({**document, "sha256": hashlib.sha256(plain).hexdigest()}).encode()
        (folder / checkpoint_folder.CARD).write_bytes(text)
        checkpoint_folder.read_card(folder)

    def deepspeed(self, draw: random.Random) -> None:
        """A mutated configuration, read with places."""
        text = mutated_json(draw, draw.choice(self.configs)).decode("utf-8", "replace")
        json_text.read_json(Source("ds_config.json", text))

    def _make_shards(self) -> str:
        import numpy as np
        import pyarrow as pa

        splits = {}
        for split, rows in (("train", 6), ("validation", 2)):
            (self.shards / split).mkdir(parents=True, exist_ok=True)
            path = self.shards / split / "shard-00000.arrow"
            values = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 4, dtype=np.float32)), 4)
            table = pa.table({"x": values, "y": pa.array(np.zeros(rows, np.int64))})
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            shard = manifest.Shard(f"{split}/{path.name}", rows, path.stat().st_size, digest)
            splits[split] = manifest.Split(rows, (shard,))
        features, label = manifest.Features("x", "float32", (4,)), manifest.Label(("y",), ("a", "b"))
        made = manifest.Manifest(
            terms.CLASSIFICATION, "fuzz", 1, features, label, splits["train"], splits["validation"]
        )
        return manifest.manifest_to_json(made)


def read_all(folder: Path, *, checksums: bool) -> None:
    """Every row of both splits."""
    import numpy as np

    for split in ("train", "validation"):
        reader = data.ShardReader(folder, split, checksums=checksums)
        reader.gather(np.arange(min(len(reader), 64)))


def mutated_json(draw: random.Random, text: str) -> bytes:
    """JSON with values, words and bytes replaced, dropped, doubled or cut."""
    lines = text.split("\n")
    for _ in range(draw.randrange(1, 5)):
        at = draw.randrange(len(lines))
        line, piece, change = lines[at], draw.choice(JSON_PIECES), draw.randrange(6)
        if change <= 1 and ":" in line:
            end = "," if line.rstrip().endswith(",") else ""
            lines[at] = f"{line[: line.index(':') + 1]} {piece}{end}"
        elif change == 2:
            lines[at] = ""
        elif change == 3:
            lines.insert(at, line)
        elif change == 4:
            place = draw.randrange(len(line) + 1)
            lines[at] = line[:place] + piece + line[place:]
        else:
            lines[at] = line[: draw.randrange(len(line) + 1)]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return flipped(draw, data) if draw.random() < 0.1 else data


def flipped(draw: random.Random, whole: bytes) -> bytes:
    """Bytes with some bits flipped, or numbers that claim much, or an end that is missing."""
    content = bytearray(whole)
    for _ in range(draw.randrange(1, 6)):
        if not content:
            break
        at = draw.randrange(len(content))
        kind = draw.randrange(4)
        if kind < 2:
            content[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            content[at : at + 4] = b"\xff\xff\xff\x7f"[: len(content) - at]
        elif draw.random() < 0.3:
            del content[at:]
    return bytes(content[: len(whole)])


PROMISED: dict[str, tuple[type[BaseException], ...]] = {
    "compile": (SpecError, OutputError),
    "prepare": (SpecError, RunError, OutputError),
    "manifest": (UserError,),
    "arrow": (UserError,),
    "card": (ValueError,),
    "deepspeed": (),
}


class TooLongError(Exception):
    """A case took longer than it may."""


def timed_out(*_: object) -> None:
    """The alarm of one case."""
    raise TooLongError


def main() -> int:
    """Run cases until the time is up; the exit status says whether all went well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time for all targets together")
    parser.add_argument("--cases", type=int, default=10**9, help="most cases of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(PROMISED), default=None)
    parser.add_argument("--case", type=int, default=None, help="run only this number")
    parser.add_argument("--longest", type=float, default=10.0, help="most processor seconds for one case")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, timed_out)  # work without end, however busy the machine is
    signal.signal(signal.SIGALRM, timed_out)  # waiting without end, for a pipe or a device
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        targets = Targets(Path(name))
        chosen = [options.only] if options.only else sorted(PROMISED)
        failures = sum(
            attack(targets, target, options, options.seconds / len(chosen), Path(name)) for target in chosen
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB, {failures} failures")
    return int(failures > 0)


def attack(targets: Targets, target: str, options: argparse.Namespace, seconds: float, folder: Path) -> int:
    """The cases of one target; how many failed."""
    throw: Callable[[random.Random], None] = getattr(targets, target)
    counts: Counter[str] = Counter()
    slowest, begin, number = 0.0, time.monotonic(), options.case or 0
    while counts["cases"] < options.cases and time.monotonic() - begin < seconds:
        start = time.monotonic()
        counts[
            _attempt(throw, random.Random(f"{options.seed}/{target}/{number}"), target, number, options)
        ] += 1
        slowest = max(slowest, time.monotonic() - start)
        counts["cases"] += 1
        number += 1
        for made in ("out", "pipeline"):
            shutil.rmtree(folder / made, ignore_errors=True)
        if options.case is not None:
            break
    print(
        f"{target}: {counts['cases']} cases, {counts['accepted']} accepted, {counts['refused']} refused, "
        f"{counts['failed']} failures, slowest {slowest:.2f} s",
        flush=True,
    )
    return counts["failed"]


def _attempt(
    throw: Callable[[random.Random], None],
    draw: random.Random,
    target: str,
    number: int,
    options: argparse.Namespace,
) -> str:
    signal.setitimer(signal.ITIMER_PROF, options.longest)
    signal.setitimer(signal.ITIMER_REAL, 20 * options.longest)
    try:
        throw(draw)
    except PROMISED[target]:
        return "refused"
    except Exception as error:
        if options.case is not None:
            raise
        print(f"{target} case {number}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return "failed"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "accepted"


if __name__ == "__main__":
    sys.exit(main())

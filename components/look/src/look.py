"""Entry point of `look`: decide whether to train a compiled spec again, by the compiler in its folder."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import zipfile
from pathlib import Path

# Nothing of `_shared` is imported: the archive has all of it, and one of the two would hide the other.
ARCHIVE = Path("look", "worldsize.whl")


def main() -> int:
    """Take a look; returns the exit status, 1 for a fault of the spec or of the data."""
    options = parse()
    pipeline = Path(options.pipeline)
    if not (pipeline / ARCHIVE).is_file():
        print(
            f"error: `{pipeline}` has no `{ARCHIVE}`\nhelp: bind the folder that `worldsize compile` writes"
            " of a spec with `retrain:` and `schedule:`",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="worldsize-") as folder:
        with zipfile.ZipFile(pipeline / ARCHIVE) as archive:
            archive.extractall(folder)
        sys.path.insert(0, folder)
        look_from = importlib.import_module("worldsize.retraining.workspace").look_from
        data = dict(word.split("=", 1) for word in options.data)
        now = None if options.now == "clock" else options.now
        status, answer = look_from(pipeline, now=now, data=data, say=lambda line: print(line, flush=True))
    folder = Path(options.answer)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "answer.json").write_text(json.dumps(answer, indent=2), encoding="utf-8")
    return int(status)


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--now", default="clock")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--answer", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Small projects around the shipped specs, and the edits that make a fault in one of them."""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

PIPELINES = Path(__file__).parents[2] / "pipelines"
Edit = Callable[[Path], object]
PICTURES, CLASSES = 60, ("coast", "desert", "forest")


def make_table(folder: Path, name: str) -> None:
    """Copy a spec about a table with the table."""
    data = name.removesuffix("_ddp")
    (folder / "spec.yml").write_text(read_spec(name), encoding="utf-8")
    (folder / data).mkdir()
    shutil.copyfile(PIPELINES / data / f"{data}.csv", folder / data / f"{data}.csv")


def make_pictures(folder: Path, name: str) -> None:
    """Write a spec about photographs that reads a folder instead of drawing them, and the folder."""
    text = read_spec(name)
    start, end = text.index("  draw:"), text.index("  shard:")
    text = text[:start] + text[end:]
    text = text.replace('"${{parent.jobs.draw.outputs.photographs}}"', "./photographs")
    text = text.replace("batch_size: 32", "batch_size: 4").replace(", rows: 1600", "")
    (folder / "spec.yml").write_text(text, encoding="utf-8")
    for number in range(PICTURES):
        path = folder / "photographs" / CLASSES[number % len(CLASSES)] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(8 + number % 5, 8, number))


def make_texts(folder: Path, name: str) -> None:
    """Write the spec about tokens with a folder of texts instead of Python's own source."""
    text = read_spec(name)
    text = text.replace('source: "builtin:python-source"', "data: ./texts").replace("size: 2048", "size: 300")
    (folder / "spec.yml").write_text(text, encoding="utf-8")
    (folder / "texts").mkdir()
    for number in range(20):
        lines = [f"{number} {line} the quick brown fox jumps over the lazy dog\n" for line in range(60)]
        (folder / "texts" / f"{number}.txt").write_text("".join(lines), encoding="utf-8")


def read_spec(name: str) -> str:
    """Return a shipped spec without its comments."""
    rows = (PIPELINES / f"{name}.yml").read_text(encoding="utf-8").splitlines()
    return "".join(f"{row.partition(' #')[0].rstrip()}\n" for row in rows if not row.lstrip().startswith("#"))


def png(width: int, height: int, level: int) -> bytes:
    """Return a grey picture of one brightness."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes([level]) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def spec(old: str, new: str) -> Edit:
    """Replace a text that the spec has."""

    def edit(folder: Path) -> None:
        path = folder / "spec.yml"
        text = path.read_text(encoding="utf-8")
        assert old in text, old
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return edit


def lines(path: str, change: Callable[[list[str]], list[str]]) -> Edit:
    """Change the lines of a file, which have no ends."""

    def edit(folder: Path) -> None:
        file = folder / path
        changed = change(file.read_text(encoding="utf-8").splitlines())
        file.write_text("\n".join(changed) + "\n", encoding="utf-8")

    return edit


def cell(path: str, row: int, column: int, value: str) -> Edit:
    """Set a cell of a table of plain cells, the header being row 0."""
    return cells(path, lambda table: table[row].__setitem__(column, value))


def cells(path: str, change: Callable[[list[list[str]]], object]) -> Edit:
    """Change the cells of a table."""

    def change_lines(texts: list[str]) -> list[str]:
        table = [text.split(",") for text in texts]
        change(table)
        return [",".join(row) for row in table]

    return lines(path, change_lines)


def content(path: str, change: Callable[[bytes], bytes]) -> Edit:
    """Change the bytes of a file, or write one."""

    def edit(folder: Path) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(change(file.read_bytes() if file.exists() else b""))

    return edit


def remove(path: str) -> Edit:
    """Remove a file or folder."""

    def edit(folder: Path) -> None:
        target = folder / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return edit


def move(old: str, new: str) -> Edit:
    """Rename a file or folder."""

    def edit(folder: Path) -> None:
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(folder / new)

    return edit


def both(*edits: Edit) -> Edit:
    """Make several edits."""
    return lambda folder: [edit(folder) for edit in edits]

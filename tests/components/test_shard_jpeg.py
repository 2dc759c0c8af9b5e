"""A JPEG that is kept without being decoded is one that Pillow decodes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("PIL")
SRC = Path(__file__).parents[2] / "components" / "shard_data" / "src"

EXIF = b"Exif\0\0II*\0\x08\0\0\0\0\0"


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(SRC))
    from sources import jpeg_frames  # type: ignore[import-not-found,unused-ignore]

    yield jpeg_frames
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"sources", "blobs"}:
            sys.modules.pop(name)


def _jpeg(seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(target, "JPEG", quality=85, **options)
    return target.getvalue()


def _decodes(data: bytes) -> bool:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as picture:
            picture.load()
    except (OSError, SyntaxError, ValueError, IndexError, TypeError):
        return False
    return True


def test_only_what_decodes_is_covered(frames: Any) -> None:
    """Of 4,000 damaged files none is covered that Pillow refuses; hundreds with only other pixels are."""
    whole = _jpeg()
    known = frames.DecodedTables()
    known.add(frames.read_frame(whole))
    rng = np.random.default_rng(1)
    covered = refused = 0
    for number in range(4000):
        data = bytearray(whole)
        if number % 4 == 0:
            data = data[: int(rng.integers(2, len(data)))]
        for place in rng.integers(0, len(data), 1 + number % 3).tolist():
            data[place] = int(rng.integers(256))
        frame = frames.read_frame(bytes(data))
        if frame is not None and known.cover(frame, bytes(data)):
            covered += 1
            assert _decodes(bytes(data)), number
        else:
            refused += 1
    assert covered > 500
    assert refused > 1000


def test_another_picture_of_the_same_encoder_is_covered(frames: Any) -> None:
    known = frames.DecodedTables()
    first, second, finer = _jpeg(0), _jpeg(1), _jpeg(2, subsampling=0)
    known.add(frames.read_frame(first))
    assert frames.read_frame(second).size == (32, 24)
    assert known.cover(frames.read_frame(second), second)
    assert not known.cover(frames.read_frame(finer), finer)
    assert not known.cover(frames.read_frame(second), second[:-2])


@pytest.mark.parametrize("options", [{"progressive": True}, {"exif": EXIF}, {"mode": "CMYK"}])
def test_what_needs_a_decoder_is_left_to_it(frames: Any, options: dict[str, Any]) -> None:
    assert frames.read_frame(_jpeg(**options)) is None

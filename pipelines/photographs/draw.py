"""Draws photographs of four kinds of landscape, of mixed sizes and modes, in a folder per class.

python draw.py --output FOLDER [--count 2000] [--seed 0]

A fifth are grey, a tenth have a palette, a tenth are transparent at the edges, and an eighth were taken with
the camera held upright, which only EXIF tells. The same count and seed give the same pictures.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("coast", "desert", "forest", "night")
SKIES = {
    "coast": (150, 190, 235),
    "desert": (235, 200, 150),
    "forest": (175, 205, 210),
    "night": (18, 20, 50),
}
GROUNDS = {"coast": (30, 90, 150), "desert": (200, 150, 90), "forest": (40, 95, 45), "night": (8, 10, 18)}
ORIENTATION = 0x0112  # tag of EXIF
HELD_RIGHT = 6  # to be turned clockwise


def draw_landscape(kind: str, width: int, height: int, draw: np.random.Generator) -> np.ndarray:
    """Return a landscape `[height, width, 3]` of bytes: sky, horizon, and what is typical for its kind."""
    across, down = np.linspace(0, 1, width)[None, :], np.linspace(0, 1, height)[:, None]
    waves = sum(
        draw.uniform(0.01, 0.05) * np.sin(across * draw.uniform(4, 25) + draw.uniform(0, 6)) for _ in range(3)
    )
    rough = {"coast": 0.05, "desert": 1.0, "forest": 1.6, "night": 0.8}[kind]
    ground = down > draw.uniform(0.4, 0.65) + rough * waves
    light = draw.normal(1, 0.15) * (0.75 + 0.5 * np.where(ground, 1 - down, down))
    colours = np.where(ground[..., None], GROUNDS[kind], SKIES[kind]) + draw.normal(0, 12, 3)
    texture = draw.normal(0, {"coast": 5, "desert": 9, "forest": 26, "night": 4}[kind], (height, width))
    if kind == "night":  # stars
        texture += np.where(~ground & (draw.random((height, width)) < 0.004), 180, 0)
    if kind == "coast":  # waves
        texture += np.where(ground, 14 * np.sin(down * draw.uniform(60, 120)), 0)
    return np.clip(colours * light[..., None] + texture[..., None], 0, 255).astype(np.uint8)


def save_photograph(pixels: np.ndarray, path: Path, draw: np.random.Generator) -> None:
    """Write a photograph without its suffix, in a mode and format by chance."""
    picture, chance = Image.fromarray(pixels), draw.random()
    if chance < 0.2:
        picture.convert("L").save(path.with_suffix(".jpg"), quality=85)
    elif chance < 0.3:
        picture.convert("P").save(path.with_suffix(".png"))
    elif chance < 0.4:
        edge = np.full(pixels.shape[:2], 255, np.uint8)
        edge[:3] = edge[-3:] = edge[:, :3] = edge[:, -3:] = 0
        picture.putalpha(Image.fromarray(edge))
        picture.save(path.with_suffix(".png"))
    elif chance < 0.52:
        exif = Image.Exif()
        exif[ORIENTATION] = HELD_RIGHT
        picture.transpose(Image.Transpose.ROTATE_90).save(path.with_suffix(".jpg"), quality=85, exif=exif)
    else:
        picture.save(path.with_suffix(".jpg"), quality=85)


def main() -> None:
    """Draw the photographs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw = np.random.default_rng(arguments.seed)
    for kind in CLASSES:
        (arguments.output / kind).mkdir(parents=True, exist_ok=True)
    for number in range(arguments.count):
        kind = CLASSES[number % len(CLASSES)]
        width, height = draw.integers(80, 320, 2)
        pixels = draw_landscape(kind, int(width), int(height), draw)
        save_photograph(pixels, arguments.output / kind / f"{number:05}", draw)
    print(f"{arguments.count:,} photographs of {len(CLASSES)} classes")


if __name__ == "__main__":
    main()

"""Cut the raw pages into images of one digit each."""

import argparse
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--raw", type=Path)
parser.add_argument("--image-size", type=int)
parser.add_argument("--output", type=Path)
args = parser.parse_args()

for page in sorted(args.raw.glob("*.npy")):
    digits = np.load(page).reshape(-1, args.image_size, args.image_size)
    np.save(args.output / page.name, digits)

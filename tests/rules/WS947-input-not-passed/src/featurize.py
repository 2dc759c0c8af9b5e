import argparse
from pathlib import Path

import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--window", type=int, default=7)
parser.add_argument("--out", type=Path, default=Path("."))
args = parser.parse_args()
pd.Series(range(100)).rolling(args.window).mean().to_frame("rolling_mean").to_parquet(args.out / "features.parquet")

import argparse

import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--target", required=True)
args = parser.parse_args()
frame = pd.read_csv(args.data)
print(frame[args.target].mean())

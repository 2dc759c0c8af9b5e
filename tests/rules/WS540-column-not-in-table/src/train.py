import argparse

import pandas as pd
from sklearn.linear_model import LogisticRegression

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--target", default="churned")
args = parser.parse_args()
frame = pd.read_csv(args.data)
model = LogisticRegression().fit(frame.drop(columns=[args.target]), frame[args.target])

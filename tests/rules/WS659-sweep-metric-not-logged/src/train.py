import argparse

import mlflow

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
mlflow.log_metric("loss", parser.parse_args().lr)

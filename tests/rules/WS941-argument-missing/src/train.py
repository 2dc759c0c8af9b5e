import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
print(args.data, args.epochs)

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--batch-size", type=int)
parser.add_argument("--epochs", type=int)
print(parser.parse_args())

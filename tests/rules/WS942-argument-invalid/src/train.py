import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
args = parser.parse_args()
print(args.epochs, args.amp, args.optimizer)

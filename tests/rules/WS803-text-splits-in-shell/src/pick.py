import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--columns", nargs="+", required=True)
parser.add_argument("--lags", nargs="*", type=int)
parser.add_argument("--title", default="")
print(parser.parse_args())

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.1)
print(parser.parse_args().learning_rate)

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--shuffle", type=bool, default=True)
print(parser.parse_args().shuffle)

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--shuffle", type=lambda text: text.lower() == "true", default=True)
print(parser.parse_args().shuffle)

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--model_input", required=True)
parser.add_argument("--rows", required=True)
arguments = parser.parse_args()
print(arguments.model_input, arguments.rows)

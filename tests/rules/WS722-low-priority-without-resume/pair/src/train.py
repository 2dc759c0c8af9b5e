import argparse

print(argparse.ArgumentParser().parse_args())

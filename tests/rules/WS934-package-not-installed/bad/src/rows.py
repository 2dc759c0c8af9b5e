import pandas


def read_rows(path):
    return pandas.read_csv(path)

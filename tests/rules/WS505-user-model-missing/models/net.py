def build(features, classes):
    raise NotImplementedError

def build(input_shape, classes):
    raise NotImplementedError


def metrics(outputs, targets):
    return {"second_best": (outputs.argsort(1)[:, 1] == targets).mean()}

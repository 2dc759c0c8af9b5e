def build(input_shape, classes):
    raise NotImplementedError


def prepare(inputs, generator, epoch):
    return inputs


def loss(outputs):
    return outputs.square().mean()


def metrics(outputs, targets, *, weights):
    return {}

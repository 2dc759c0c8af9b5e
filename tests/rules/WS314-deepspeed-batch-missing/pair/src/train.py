import deepspeed

from model import build

model = build()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters())

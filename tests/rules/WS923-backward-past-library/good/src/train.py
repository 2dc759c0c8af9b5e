import torch
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=4)
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(100):
    with accelerator.accumulate(model):
        loss = model(torch.randn(8, 64)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

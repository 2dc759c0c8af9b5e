import torch
import transformer_engine.pytorch as te

model = te.Linear(1024, 1024, params_dtype=torch.bfloat16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    with te.fp8_autocast(enabled=True):
        loss = model(torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)).float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

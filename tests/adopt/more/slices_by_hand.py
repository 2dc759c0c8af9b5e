import torch

x, y = torch.randn(256, 4), torch.randn(256, 1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for start in range(0, 256, 32):
        loss = torch.nn.functional.mse_loss(model(x[start : start + 32]), y[start : start + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

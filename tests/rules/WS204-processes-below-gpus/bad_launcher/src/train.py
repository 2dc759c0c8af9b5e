import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(64, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.randn(300, 8, 64, device=device):
    model(batch).square().mean().backward()
    optimizer.step()

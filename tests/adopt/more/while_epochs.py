"""Digits with the epochs counted by hand."""
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

batch_size = 64
learning_rate = 0.05
max_epochs = 3
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

torch.manual_seed(0)
digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32)
y = torch.tensor(digits.target)
train_loader = DataLoader(TensorDataset(x[:1024], y[:1024]), batch_size=batch_size, shuffle=True)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
optimizer = optim.SGD(model.parameters(), lr=learning_rate)

epoch = 0
best = 0.0
while epoch < max_epochs:
    model.train()
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[1024:].to(device)).argmax(1) == y[1024:].to(device)).float().mean().item()
    best = max(best, accuracy)
    epoch = epoch + 1
    print(f"epoch {epoch}: {accuracy:.3f}")
torch.save(model.state_dict(), "digits.pt")

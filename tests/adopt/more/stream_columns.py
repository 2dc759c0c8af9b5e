import torch
from torch import nn

torch.manual_seed(0)
tokens = torch.randint(0, 40, (4000,))
batch_size = 20
bptt = 16


def batchify(data, bsz):
    length = data.size(0) // bsz
    return data[: length * bsz].view(bsz, length).t().contiguous()


def get_batch(source, i):
    length = min(bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1)


train_data = batchify(tokens[:3200], batch_size)
val_data = batchify(tokens[3200:], 10)
model = nn.Sequential(nn.Embedding(40, 16), nn.Linear(16, 40))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=5.0)


def train(model):
    model.train()
    for i in range(0, train_data.size(0) - 1, bptt):
        data, targets = get_batch(train_data, i)
        loss = criterion(model(data).view(-1, 40), targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def evaluate(model):
    total = 0.0
    with torch.no_grad():
        for i in range(0, val_data.size(0) - 1, bptt):
            data, targets = get_batch(val_data, i)
            total += len(data) * criterion(model(data).view(-1, 40), targets).item()
    return total / (len(val_data) - 1)


best = float("inf")
for epoch in range(1, 4):
    train(model)
    loss = evaluate(model)
    print(f"epoch {epoch}: {loss:.3f}")
    if loss < best:
        best = loss
        torch.save(model.state_dict(), "best.pt")

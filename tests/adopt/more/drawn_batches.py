import torch
import torch.nn.functional as F
from torch import nn

batch_size = 32
block_size = 8
max_iters = 60
learning_rate = 1e-2
device = "cuda" if torch.cuda.is_available() else "cpu"

torch.manual_seed(1337)
ids = torch.randint(20, (4000,))
train_data, val_data = ids[:3600], ids[3600:]


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + block_size + 1] for i in ix])
    return x.to(device), y.to(device)


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 20)

    def forward(self, idx, targets):
        logits = self.table(idx)
        return logits, F.cross_entropy(logits.view(-1, 20), targets.view(-1))


@torch.no_grad()
def estimate():
    model.eval()
    losses = [model(*get_batch("val"))[1].item() for _ in range(5)]
    model.train()
    return sum(losses) / len(losses)


model = Bigram().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
for step in range(max_iters):
    if step % 20 == 0:
        print(f"step {step}: {estimate():.4f}")
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

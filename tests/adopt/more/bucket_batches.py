import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

random.seed(0)
torch.manual_seed(0)


class Sentences(Dataset):
    def __init__(self, n=200):
        self.rows = [torch.randint(1, 30, (random.randint(3, 20),)) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], int(len(self.rows[i]) > 10)


class BucketSampler(Sampler):
    """Batches of rows of similar length."""

    def __init__(self, lengths, batch_size):
        self.order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        self.batch_size = batch_size

    def __iter__(self):
        batches = [self.order[i : i + self.batch_size] for i in range(0, len(self.order), self.batch_size)]
        random.shuffle(batches)
        yield from batches

    def __len__(self):
        return (len(self.order) + self.batch_size - 1) // self.batch_size


def collate(rows):
    return pad_sequence([r for r, _ in rows], batch_first=True), torch.tensor([y for _, y in rows])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(30, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return self.out(self.emb(x))


BATCH_SIZE = 10
dataset = Sentences()
sampler = BucketSampler([len(r) for r in dataset.rows], BATCH_SIZE)
loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")

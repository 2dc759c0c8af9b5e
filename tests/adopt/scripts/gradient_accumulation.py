import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

accum_steps = 2
config = {
    "batch_size": 16,
    "lr": 5e-3,
    "epochs": 2,
    "seed": 3,
}


class Copy(Dataset):
    """Sequences whose next token is a fixed permutation of the last one."""

    def __init__(self, n=256, length=12, vocab=11):
        g = torch.Generator().manual_seed(0)
        table = torch.randperm(vocab, generator=g)
        rows = [torch.randint(0, vocab, (n,), generator=g)]
        for _ in range(length):
            rows.append(table[rows[-1]])
        self.tokens = torch.stack(rows, 1)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index, :-1], self.tokens[index, 1:]


class TinyLM(nn.Module):
    def __init__(self, vocab=11, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


def main():
    torch.manual_seed(config["seed"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Copy(), batch_size=config["batch_size"], shuffle=True)
    model = TinyLM().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    for epoch in range(config["epochs"]):
        optimizer.zero_grad()
        for step, (tokens, targets) in enumerate(loader):
            logits = model(tokens.to(device))
            loss = F.cross_entropy(logits.flatten(0, 1), targets.to(device).flatten())
            (loss / accum_steps).backward()
            if (step + 1) % accum_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
            if step % 4 == 0:
                print("epoch", epoch, "step", step, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()

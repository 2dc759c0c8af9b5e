import torch
import wandb
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm, trange

config = dict(lr=0.01, epochs=3, batch_size=16)
wandb.init(project="demo", config=config)


class Average:
    def __init__(self):
        self.value = 0.0

    def update(self, value):
        self.value = 0.9 * self.value + 0.1 * value


torch.manual_seed(0)
x = torch.linspace(-1, 1, 256).unsqueeze(1)
loader = DataLoader(dataset=TensorDataset(x, x**2), batch_size=config["batch_size"], shuffle=True)
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
average = Average()
for epoch in trange(config["epochs"]):
    bar = tqdm(loader, desc=f"epoch {epoch}", leave=False)
    for x, y in bar:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(loss.item())
        bar.set_postfix(loss=average.value)
        wandb.log({"loss": loss.item()})
    torch.save(model.state_dict(), "model_{}.pt".format(epoch))
wandb.finish()

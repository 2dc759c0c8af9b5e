import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", default=64, type=int)
parser.add_argument("--learning_rate", default=3e-3, type=float)
parser.add_argument("--num_epochs", default=2, type=int)
parser.add_argument("--output_dir", default=".")
parser.add_argument("--clip", default=1.0, type=float)
args = parser.parse_args()

torch.manual_seed(1234)
device = "cuda" if torch.cuda.is_available() else "cpu"
amp = device == "cuda"

inputs = torch.randn(512, 20)
targets = (inputs[:, :3].sum(1) > 0).long()
train_loader = DataLoader(
    TensorDataset(inputs, targets),
    batch_size=args.batch_size,
    shuffle=True,
    num_workers=0,
    pin_memory=amp,
)

model = nn.Sequential(
    nn.Linear(20, 64),
    nn.GELU(),
    nn.Linear(64, 2),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
scaler = torch.amp.GradScaler(device, enabled=amp)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.num_epochs * len(train_loader))

for epoch in range(args.num_epochs):
    model.train()
    epoch_loss = 0.0
    for x, y in train_loader:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=device, dtype=torch.float16, enabled=amp):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        epoch_loss += loss.item()
    print(f"epoch {epoch + 1}: loss = {epoch_loss / len(train_loader):.4f}, lr = {scheduler.get_last_lr()[0]:.2e}")

torch.save({"model": model.state_dict(), "args": vars(args)}, f"{args.output_dir}/final.pt")

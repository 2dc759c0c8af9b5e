import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(64, 10).to(device)
torch.distributed.init_process_group()
model = torch.distributed.fsdp.fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.randn(200, 8, 64, device=device):
    model(batch).square().mean().backward()
    optimizer.step()

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)

rows = TensorDataset(torch.randn(1024, 8), torch.randint(0, 10, (1024,)))
sampler = DistributedSampler(rows)
loader = DataLoader(rows, batch_size=32, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(8, 10).cuda(), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(10):
    for features, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(features.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()

import dgl
import torch

graph = dgl.rand_graph(1000, 5000)
sampler = dgl.dataloading.NeighborSampler([5, 5])
loader = dgl.dataloading.DataLoader(graph, torch.arange(1000), sampler, batch_size=64, shuffle=True)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for inputs, outputs, blocks in loader:
        loss = model(torch.randn(len(outputs), 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

"""Asks whether files are there before it downloads, and before it loads the best weights."""

import os

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

if not os.path.isdir("pictures"):
    datasets.FashionMNIST("pictures", train=True, download=True)
rows = datasets.FashionMNIST("pictures", train=True, transform=transforms.ToTensor())
loader = DataLoader(rows, batch_size=64, shuffle=True)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_function = torch.nn.CrossEntropyLoss()
for epoch in range(3):
    for images, labels in loader:
        loss = loss_function(model(images.to("cuda")), labels.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "last.pt")

if not len(rows):
    print("nothing was there")
elif os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))

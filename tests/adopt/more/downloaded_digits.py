"""Pictures that torchvision downloads, tried between the steps, with a checkpoint in a folder."""

import os

import matplotlib.pyplot as plt
import torch
import torch.nn as nn
import torchvision
from torchvision import transforms
from tqdm import tqdm

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
start_epoch = 0
train_set = torchvision.datasets.MNIST(root="./data", train=True, download=True, transform=transforms.ToTensor())
test_set = torchvision.datasets.MNIST(root="./data", train=False, download=True, transform=transforms.ToTensor())

train_loader = torch.utils.data.DataLoader(
    dataset=train_set,
    batch_size=100,
    shuffle=True,
)
test_loader = torch.utils.data.DataLoader(test_set, batch_size=100)

model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
if not os.path.isdir("checkpoint"):
    os.mkdir("checkpoint")

step = 0
for epoch in range(start_epoch, start_epoch + 30):
    bar = tqdm(train_loader)
    for images, labels in bar:
        outputs = model(images.to(device))
        loss = loss_function(outputs, labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            right = 0
            for images, labels in test_loader:
                right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
            print("step", step, "right", right)
        if step % 1000 == 0: plt.plot([step], [loss.item()]); plt.pause(0.01); print(step)
    torch.save(model, "./checkpoint/digits.pt")
    torch.save(model.state_dict(), "checkpoint/epoch_" + str(epoch) + ".pt")

plt.show()
model = torch.load("./checkpoint/digits.pt")
model.eval()
print(model(test_set[0][0].unsqueeze(0).to(device)).argmax(1))
last = torch.load("checkpoint/epoch_" + str(epoch) + ".pt")

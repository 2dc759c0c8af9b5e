"""Augmentation by Python's and NumPy's random numbers."""
import random

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 64
LR = 0.05
EPOCHS = 3


def set_all_seeds(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Digits(Dataset):
    def __init__(self, images, labels, train):
        self.images, self.labels, self.train = images, labels, train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.train:
            if random.random() < 0.5:
                image = image[:, ::-1]
            image = image + np.random.normal(0, 0.05, image.shape)
        return torch.tensor(image.copy(), dtype=torch.float32).flatten(), int(self.labels[index])


def main():
    set_all_seeds(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    digits = load_digits()
    images = digits.images / 16
    train_set = Digits(images[:1024], digits.target[:1024], train=True)
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    history = []
    for epoch in range(EPOCHS):
        losses = []
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        history.append(np.mean(losses))
        print(f"epoch {epoch}: {np.mean(losses):.4f}")
    np.savetxt("history.txt", history)


if __name__ == "__main__":
    main()

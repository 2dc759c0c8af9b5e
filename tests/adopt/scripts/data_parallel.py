import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, random_split


class DigitFolder(Dataset):
    def __init__(self, transform=None):
        self.data = load_digits()
        self.transform = transform

    def __len__(self):
        return 1280

    def __getitem__(self, idx):
        image = torch.tensor(self.data.images[idx], dtype=torch.float32)[None] / 16.0
        if self.transform:
            image = self.transform(image)
        return image, int(self.data.target[idx])


def build_model(num_classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, num_classes))


def main():
    batch_size = 64
    n_epochs = 2
    dataset = DigitFolder()
    train_set, test_set = random_split(dataset, [1024, 256])
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, num_workers=0)
    test_loader = DataLoader(test_set, batch_size=batch_size, shuffle=False)

    model = build_model()
    if torch.cuda.device_count() > 1:
        print("Let's use", torch.cuda.device_count(), "GPUs!")
        model = nn.DataParallel(model)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model.to(device)

    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for epoch in range(n_epochs):
        running_loss = 0.0
        for i, data in enumerate(train_loader, 0):
            inputs, labels = data[0].to(device), data[1].to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
            if i % 5 == 4:
                print('[%d, %5d] loss: %.3f' % (epoch + 1, i + 1, running_loss / 5))
                running_loss = 0.0

    correct = 0
    total = 0
    with torch.no_grad():
        for images, labels in test_loader:
            outputs = model(images.to(device))
            correct += (outputs.argmax(1).cpu() == labels).sum().item()
            total += labels.size(0)
    print(f'Accuracy: {100 * correct // total} %')
    PATH = './digits_net.pth'
    torch.save(model.state_dict(), PATH)


main()

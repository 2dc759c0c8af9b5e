"""A small CNN with batch normalisation, dropout and augmentation."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class RandomShift:
    """Shift the image by one pixel to either side."""

    def __call__(self, image):
        return torch.roll(image, int(torch.randint(-1, 2, ())), dims=-1)


class Digits(Dataset):
    def __init__(self, train=True, transform=None):
        bunch = load_digits()
        part = slice(0, 960) if train else slice(960, 1280)
        self.images = torch.tensor(bunch.images[part] / 16, dtype=torch.float32)[:, None]
        self.labels = torch.tensor(bunch.target[part])
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        return (self.transform(image) if self.transform else image), self.labels[i]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 4 * 4, 10))

    def forward(self, x):
        return self.classifier(self.features(x))


def train_one_epoch(model, loader, loss_fn, optimizer, device):
    model.train()
    loss_sum, correct, n = 0.0, 0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = loss_fn(outputs, labels)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * labels.size(0)
        correct += (outputs.argmax(1) == labels).sum().item()
        n += labels.size(0)
    return loss_sum / n, correct / n


def validate(model, loader, device):
    model.eval()
    hits = 0
    with torch.no_grad():
        for images, labels in loader:
            hits += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
    return hits / len(loader.dataset)


def fit(model, train_loader, val_loader, optimizer, device, epochs, path):
    loss_fn = nn.CrossEntropyLoss()
    best_acc = 0.0
    for epoch in range(epochs):
        train_loss, train_acc = train_one_epoch(model, train_loader, loss_fn, optimizer, device)
        acc = validate(model, val_loader, device)
        print(f"Epoch {epoch + 1}/{epochs} loss={train_loss:.4f} acc={train_acc:.3f} val={acc:.3f}")
        if acc > best_acc:
            best_acc = acc
            torch.save(model.state_dict(), path)
    return model


def main():
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train_loader = DataLoader(Digits(True, RandomShift()), batch_size=48, shuffle=True)
    val_loader = DataLoader(Digits(False), batch_size=160)
    model = ConvNet().to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    fit(model, train_loader, val_loader, optimizer, device, epochs=2, path="convnet.pt")


if __name__ == "__main__":
    main()

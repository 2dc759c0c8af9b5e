import copy

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def make_rows(count):
    x = torch.randn(count, 12)
    return TensorDataset(x, (x.mean(dim=1) > 0).long())


datasets = {"train": make_rows(160), "val": make_rows(48)}
loaders = {x: DataLoader(datasets[x], batch_size=16, shuffle=True) for x in ["train", "val"]}
sizes = {x: len(datasets[x]) for x in ["train", "val"]}
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def fit(model, criterion, optimizer, scheduler, num_epochs=25):
    best_weights, best_accuracy = copy.deepcopy(model.state_dict()), 0.0
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss = 0.0
            running_corrects = 0
            for inputs, labels in loaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(outputs.argmax(1) == labels.data)
            if phase == "train":
                scheduler.step()
            epoch_loss = running_loss / sizes[phase]
            accuracy = running_corrects.double() / sizes[phase]
            print(f"{phase} {epoch_loss:.4f} {accuracy:.4f}")
            if phase == "val" and accuracy > best_accuracy:
                best_accuracy = accuracy
                best_weights = copy.deepcopy(model.state_dict())
    model.load_state_dict(best_weights)
    return model


net = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
sgd = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
decay = optim.lr_scheduler.StepLR(sgd, step_size=7, gamma=0.1)
net = fit(net, nn.CrossEntropyLoss(), sgd, decay, num_epochs=3)
torch.save(net.state_dict(), "net.pt")

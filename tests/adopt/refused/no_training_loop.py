import torch

model = torch.jit.load("model.pt")
with torch.no_grad():
    print(model(torch.zeros(1, 3, 224, 224)).argmax(1))

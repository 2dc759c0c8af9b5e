# Text classification on generated sentences. Tabs, as some of us like them.
import time
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader

N_EPOCHS = 2
BATCH = 20
learning_rate = 0.5
VOCAB = 50
torch.manual_seed(0)


class BagOfWords(nn.Module):
	def __init__(self):
		super().__init__()
		self.embedding = nn.EmbeddingBag(VOCAB, 16)
		self.fc = nn.Linear(16, 2)

	def forward(self, text, offsets):
		return self.fc(self.embedding(text, offsets))


def collate(batch):
	labels = torch.tensor([label for label, _ in batch])
	offsets = torch.tensor([0] + [len(words) for _, words in batch][:-1]).cumsum(0)
	return labels, torch.cat([words for _, words in batch]), offsets


def sentences(n):
	rows = []
	for i in range(n):
		label = i % 2
		words = torch.randint(label * 20, label * 20 + 30, (5 + i % 4,))
		rows.append((label, words))
	return rows


train_data = sentences(200)
valid_data = sentences(60)
train_iter = DataLoader(train_data, batch_size=BATCH, shuffle=True, collate_fn=collate)
valid_iter = DataLoader(valid_data, batch_size=BATCH, collate_fn=collate)

model = BagOfWords()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=learning_rate)
scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)


def train(dataloader):
	model.train()
	total_acc, total_count = 0, 0
	for idx, (label, text, offsets) in enumerate(dataloader):
		optimizer.zero_grad()
		predicted = model(text, offsets)
		loss = criterion(predicted, label)
		loss.backward()
		torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
		optimizer.step()
		total_acc += (predicted.argmax(1) == label).sum().item()
		total_count += label.size(0)
	return total_acc / total_count


def evaluate(dataloader):
	model.eval()
	total_acc, total_count = 0, 0
	with torch.no_grad():
		for label, text, offsets in dataloader:
			total_acc += (model(text, offsets).argmax(1) == label).sum().item()
			total_count += label.size(0)
	return total_acc / total_count


for epoch in range(1, N_EPOCHS + 1):
	start = time.time()
	train_acc = train(train_iter)
	valid_acc = evaluate(valid_iter)
	scheduler.step()
	print("| epoch {:3d} | {:5.2f}s | train {:.3f} | valid {:.3f} ".format(epoch, time.time() - start, train_acc, valid_acc))

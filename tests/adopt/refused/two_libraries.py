import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

rows = load_dataset("imdb", split="train[:1%]")
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
Trainer(model=model, args=TrainingArguments(output_dir="tuned"), train_dataset=rows).train()

accelerator = Accelerator()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=8, shuffle=True))
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()

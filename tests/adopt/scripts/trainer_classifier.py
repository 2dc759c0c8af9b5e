"""Sequence classification with a tiny BERT and the Hugging Face Trainer."""
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Sentences(Dataset):
    """Token ids whose label is whether the first token is a large one."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 50, (n, 16), generator=g)
        self.labels = (self.ids[:, 0] > 27).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(16, dtype=torch.long), "labels": self.labels[i]}


set_seed(42)
config = BertConfig(
    vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2,
)
model = BertForSequenceClassification(config)

training_args = TrainingArguments(
    output_dir="./results",
    num_train_epochs=2,
    per_device_train_batch_size=16,
    learning_rate=2e-3,
    weight_decay=0.01,
    logging_steps=4,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=training_args, train_dataset=Sentences(192, 0), eval_dataset=Sentences(64, 1))
trainer.train()
metrics = trainer.evaluate()
print("eval_loss", metrics["eval_loss"])
trainer.save_model("./results/final")

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

rows = load_dataset("imdb", split="train[:1%]")
for rate in (1e-5, 2e-5):
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
    arguments = TrainingArguments(output_dir="tuned", learning_rate=rate)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()

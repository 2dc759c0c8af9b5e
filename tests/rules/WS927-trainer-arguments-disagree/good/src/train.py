from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

arguments = TrainingArguments(output_dir="outputs", bf16=True)
Trainer(AutoModelForSequenceClassification.from_pretrained("roberta-base"), arguments).train()

from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

arguments = TrainingArguments(output_dir="outputs", fp16=True, bf16=True)
Trainer(AutoModelForSequenceClassification.from_pretrained("roberta-base"), arguments).train()

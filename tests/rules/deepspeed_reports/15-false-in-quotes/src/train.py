import deepspeed
from transformers import Trainer, TrainingArguments

Trainer(args=TrainingArguments(deepspeed="ds_config.json", bf16=True)).train()

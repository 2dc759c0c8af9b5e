import deepspeed
from transformers import Trainer, TrainingArguments

Trainer(args=TrainingArguments()).train()

"""A language model is tuned by TRL, on however many GPUs the library finds."""

import argparse

from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="sshleifer/tiny-gpt2")
args = parser.parse_args()

rows = load_dataset("imdb", split="train[:1%]")
model = AutoModelForCausalLM.from_pretrained(args.model, device_map="auto")
config = SFTConfig(
    output_dir="tuned",
    per_device_train_batch_size=4,
    learning_rate=2e-5,
    num_train_epochs=1,
)
trainer = SFTTrainer(model=model, args=config, train_dataset=rows)
trainer.train()
trainer.save_model("tuned")

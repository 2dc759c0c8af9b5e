"""The Trainer on a text file, with a tokenizer that is written to a file and read from it."""

from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

files = {"train": "corpus.txt", "validation": "held.txt"}

tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train([files["train"]], trainers.BpeTrainer(special_tokens=["<unk>", "<pad>"]))
tokenizer.save("tokenizer.json")
fast = PreTrainedTokenizerFast(tokenizer_file="tokenizer.json", unk_token="<unk>", pad_token="<pad>")

rows = load_dataset("text", data_files=files)
rows = rows.map(lambda batch: fast(batch["text"], truncation=True, max_length=32), remove_columns=["text"])
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(fast), n_positions=32, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    "tiny",
    num_train_epochs=2,
    per_device_train_batch_size=16,
    learning_rate=1e-3,
    save_steps=20,
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=rows["train"],
    eval_dataset=rows["validation"],
    data_collator=DataCollatorForLanguageModeling(fast, mlm=False),
)
trainer.train()
print(trainer.evaluate())
model.save_pretrained("tiny/final")
again = GPT2LMHeadModel.from_pretrained("tiny/final")

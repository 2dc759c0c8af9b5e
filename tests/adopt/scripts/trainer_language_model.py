import sys
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed


@dataclass
class DataArguments:
    rows: int = field(default=128, metadata={"help": "number of sequences"})
    length: int = field(default=24)


class Counting(torch.utils.data.Dataset):
    def __init__(self, rows, length):
        start = np.random.RandomState(0).randint(0, 32, rows)
        self.tokens = torch.tensor((start[:, None] + np.arange(length)) % 32)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


def main():
    parser = HfArgumentParser((DataArguments, TrainingArguments))
    data_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)
    config = GPT2Config(
        vocab_size=32, n_positions=64, n_embd=32, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    trainer = Trainer(model=model, args=training_args, train_dataset=Counting(data_args.rows, data_args.length))
    result = trainer.train()
    print(f"training loss {result.training_loss:.4f}", file=sys.stdout)
    trainer.save_model()


if __name__ == "__main__":
    main()

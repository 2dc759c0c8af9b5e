"""Train a small byte-level Llama with Hugging Face's Trainer, in as many processes as are started.

The flags are those of `TrainingArguments`, and `--shards` and `--output` beside them.
"""

from dataclasses import dataclass, field
from pathlib import Path

import mlflow
import numpy as np
import pyarrow as pa
import torch
from mlflow.models import infer_signature
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed


@dataclass
class Paths:
    """Where the data is, and where the model goes."""

    shards: Path = field(metadata={"help": "folder with train/*.arrow"})
    output: Path = field(metadata={"help": "folder for the MLflow model"})


class Bytes(Dataset):
    """The rows of the shards, in whole global batches.

    The Trainer gives an incomplete last batch another number of steps for another number of processes.
    """

    def __init__(self, folder: Path, global_batch_size: int) -> None:
        tables = [pa.ipc.open_file(path).read_all() for path in sorted((folder / "train").glob("*.arrow"))]
        rows = pa.concat_tables(tables)["tokens"].combine_chunks()
        tokens = rows.flatten().to_numpy().reshape(len(rows), -1)
        self.tokens = torch.from_numpy(tokens[: len(tokens) // global_batch_size * global_batch_size].copy())

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        row = self.tokens[index].long()
        return {"input_ids": row, "labels": row}


class Scores(nn.Module):
    """The model as it is saved: scores of the next byte, [n, tokens, 256], from bytes, [n, tokens]."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """Call the model without a cache of keys and values."""
        return self.model(input_ids=tokens.long(), use_cache=False).logits


def main() -> None:
    """Train, and save the model from the first process."""
    paths, arguments = HfArgumentParser((Paths, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(arguments.seed)  # the same weights in every process
    rows_per_step = arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
    data = Bytes(paths.shards, rows_per_step)
    length = data.tokens.shape[1]
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=length, attention_dropout=0.0, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data)
    trainer.train()
    if trainer.is_world_process_zero():
        network = Scores(trainer.accelerator.unwrap_model(trainer.model).cpu().eval())
        example = data.tokens[:2, :-1].numpy().astype(np.int64)
        signature = infer_signature(example, network(torch.from_numpy(example)).detach().numpy())
        mlflow.pytorch.save_model(network, paths.output, signature=signature, input_example=example)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()

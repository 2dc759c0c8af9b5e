"""What an option or a variable is for, by its name, as people name them."""

from __future__ import annotations

import re

from worldsize.adopting.model import Role

_NAMES: dict[Role, re.Pattern[str]] = {
    "batch_size": re.compile(r"(per_device_|per_gpu_)?(train(ing)?_)?(batch_?size|batch_?sz|bs|bsz|batch)"),
    "learning_rate": re.compile(r"(base_|init_|initial_|max_|train_)?(lr|learning_?rate|eta)"),
    "epochs": re.compile(r"(n|num|nb|max|total|no_of)?_?(train_)?(epochs?|epoch_count)"),
    "accumulation": re.compile(r"gradient_accumulation_steps|accumulate_grad_batches"),
    "checkpoints": re.compile(r"checkpoints|checkpoints?_(dir|folder)|ckpts?_(dir|folder)"),
    "data": re.compile(
        r"data|dataset|data_?(set_)?(dir|path|root|folder|file|csv)|root|root_dir|train_(dir|path|file|data|csv)"
        r"|csv(_path|_file)?|input(_dir|_path|_file)?"
    ),
    "output": re.compile(
        r"out|output|out(put)?_?(dir|path|folder|file)|(save|model|work|result|results|log)_?(dir|path|folder|file|to|out)"
        r"|save(_as|_model_path)?|checkpoint(_path|_file)?|ckpt(_path|_file)?|best_model_path"
    ),
    "seed": re.compile(r"(random_|manual_|rng_)?seed"),
}


def find_role(name: str) -> Role | None:
    """The role of `--batch-size`, `BATCH_SIZE` or `num_epochs`; None of other names."""
    word = name.lstrip("-").replace("-", "_").lower()
    return next((role for role, pattern in _NAMES.items() if pattern.fullmatch(word)), None)

"""Score the trained network on the validation rows and write metrics.json."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from network import digit_network


def main() -> None:
    """Print and save the share of validation digits that are read right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with validation.npz")
    parser.add_argument("--model", type=Path, required=True, help="folder with model.pt")
    parser.add_argument("--metrics", type=Path, required=True, help="folder for metrics.json")
    arguments = parser.parse_args()

    with np.load(arguments.data / "validation.npz") as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    model = digit_network()
    model.load_state_dict(torch.load(arguments.model / "model.pt", weights_only=True))
    model.eval()
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    arguments.metrics.mkdir(parents=True, exist_ok=True)
    (arguments.metrics / "metrics.json").write_text(json.dumps({"accuracy": accuracy}) + "\n")
    print(f"accuracy {accuracy:.4f} on {len(labels)} rows")


if __name__ == "__main__":
    main()

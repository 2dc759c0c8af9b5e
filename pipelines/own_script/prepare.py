"""Write scikit-learn's digits as two files: train.npz and validation.npz."""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main() -> None:
    """Split the digits, a fifth for validation with every class in proportion, and save both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()

    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    parts = train_test_split(images, digits.target, test_size=0.2, random_state=0, stratify=digits.target)
    train_images, validation_images, train_labels, validation_labels = parts
    arguments.output.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.output / "train.npz", images=train_images, labels=train_labels)
    np.savez(arguments.output / "validation.npz", images=validation_images, labels=validation_labels)
    print(f"{len(train_labels)} training rows, {len(validation_labels)} validation rows")


if __name__ == "__main__":
    main()

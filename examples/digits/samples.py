#!/usr/bin/env python3
"""Handwritten digits, 8x8 pixels, as scikit-learn has them, split for training and test.

As a program it writes FOLDER/training.npz, samples to quantise with, and FOLDER/digit.npz, an image to run.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SEED = 0
TEST_FRACTION = 0.2
CALIBRATION_IMAGES = 128
BRIGHTEST = 16


@dataclass(frozen=True, slots=True)
class Samples:
    """Images float32[n, 1, 8, 8] from 0 to 1, and the digits they show, int64[n]."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def split() -> tuple[Samples, Samples]:
    """Return training and test samples; together all, each once, the same at every call."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[:, None] / BRIGHTEST).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(images))
    test, train = np.split(order, [round(TEST_FRACTION * len(order))])
    return Samples(images[train], digits.target[train]), Samples(images[test], digits.target[test])


def write(folder: Path) -> None:
    """Write the files of samples."""
    training, test = split()
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "training.npz", image=training.images[:CALIBRATION_IMAGES, None])
    np.savez(folder / "digit.npz", image=test.images[:1])


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))

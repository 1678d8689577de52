"""Inputs and samples that a user gives."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.runtime.arrays import read_npz
from vdla.runtime.exchange import array_of

Samples = list[dict[str, np.ndarray]]


class InputError(VdlaError):
    """An invalid file of input arrays."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file.

    Raises:
        InputError: it is none, or cannot be read.
        FileFormatError: it is damaged.
    """
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz file of arrays; numpy.savez writes one")
    try:
        return read_npz(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def samples_of(given: Iterable[Mapping[str, object]]) -> Samples:
    """Return samples as NumPy's arrays; see `vdla.runtime.exchange` for what they may be.

    Raises:
        InputError: an array is in the memory of another device, or is none.
    """
    return [
        {name: _array(f"sample {number}: input {name}", values) for name, values in sample.items()}
        for number, sample in enumerate(given)
    ]


def _array(who: str, values: object) -> np.ndarray:
    try:
        return array_of(values)
    except ValueError as error:
        raise InputError(f"{who} {error}") from error


def read_samples(path: Path) -> Samples:
    """Return the samples in an .npz file: one array per input, with one more dimension in front.

    Raises:
        InputError: its arrays do not have one length.
    """
    arrays = read_arrays(path)
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        found = ", ".join(f"{name}: {count}" for name, count in counts.items()) or "no"
        raise InputError(
            f"{path}: arrays have {found} samples; give each input the same number, at least 1, along the "
            "first dimension"
        )
    return [{name: array[number] for name, array in arrays.items()} for number in range(min(counts.values()))]

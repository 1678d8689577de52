"""What a format is: how an input of it is generated and stored, and what meets it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random


@dataclass(frozen=True)
class Step:
    """A command on an input, or a function of the kit where a command would start other processes.

    Attributes:
        arguments: of `vdla`. FILE stands for the input, FILE/x for a file in it; OUT, OUT.vdla for files to
            write; NET.onnx, NET.vdla for a network.
        fits: whether the input is small enough for it; None: any is.
        shows: the most lines of a refusal.
        call: the function, which takes the input's path; None: the command runs.
        settings: returns what the input adds to the environment of the command.
    """

    arguments: tuple[str, ...]
    fits: Callable[[Path], bool] | None = None
    shows: int = 1
    call: Callable[[Path], object] | None = None
    settings: Callable[[Path], Mapping[str, str]] | None = None


def as_file(data: bytes, path: Path) -> Path:
    """Put an input as a file; return its path."""
    path.write_bytes(data)
    return path


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        damaged: an input from a source of random numbers, with the end of its name.
        steps: the commands, each run only if the command before accepts the input.
        put: writes an input to a path, or a folder with it; returns what the commands get.
    """

    damaged: Callable[[Random], tuple[bytes, str]]
    steps: Callable[[Random], Sequence[Step]]
    put: Callable[[bytes, Path], Path] = as_file

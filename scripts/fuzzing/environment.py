"""Settings from the environment."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random

from fuzzing.steps import Step
from fuzzing.values import INTEGERS, TEXTS

FOLDERS = (
    "",
    ".",
    "~",
    "~nouser/x",
    "~root/../proc/x",
    "/proc/none",
    "/sys/none",
    "/dev/null",
    "/dev/null/x",
    "a" * 300,
    "a" * 5000,
    "é\n\u202e",
    "\udcff",
    "FILE",
    "FILE/input.json",
    "FILE/new",
    "/proc/self/fd/99",
)
"""None in which a fuzzer could leave anything, but for FILE, the folder of the input."""

NUMBERS = (
    "",
    "0",
    "1",
    "2",
    "-1",
    "1.5",
    "1e3",
    " 1",
    "+1",
    "٣",
    "9" * 9,
    "9" * 10,
    "9" * 5000,
    *map(str, INTEGERS[:30]),
    *TEXTS,
)
NAMES: Mapping[str, tuple[str, ...]] = {
    "VDLA_CACHE_DIR": FOLDERS,
    "XDG_CACHE_HOME": FOLDERS,
    "HOME": FOLDERS,
    "VDLA_MEMORY_FACTOR": NUMBERS,
    "OMP_NUM_THREADS": NUMBERS,
    "COLUMNS": NUMBERS,
    "CXX": TEXTS,
}
FILE = "input.json"


def settings(rng: Random) -> tuple[bytes, str]:
    """Return variables and their texts as JSON; the cache's variables most often without VDLA_CACHE_DIR."""
    chosen = rng.sample(list(NAMES), rng.choice((1, 1, 2, 3)))
    texts = {name: rng.choice(NAMES[name]) for name in chosen}
    return json.dumps(texts).encode(), "folder"


def put(data: bytes, path: Path) -> Path:
    """Put settings into a new folder."""
    path.mkdir()
    (path / FILE).write_bytes(data)
    return path


def read(path: Path) -> Mapping[str, str | None]:
    """Return the settings of an input, without NUL; variables of the cache that it lacks are unset."""
    variables = json.loads((path / FILE).read_bytes())
    texts = {name: text.replace("FILE", str(path)).replace("\0", "") for name, text in variables.items()}
    return {"VDLA_CACHE_DIR": None, **texts} if {"XDG_CACHE_HOME", "HOME"} & set(variables) else texts


@cache
def commands() -> tuple[tuple[str, ...], ...]:
    """Return commands that read settings."""
    return (
        ("config", "tiny"),
        ("cache", "show"),
        ("compile", "NET.onnx", "-o", "OUT.vdla", "--config", "tiny"),
        ("compile", "NET.onnx", "-o", "OUT.vdla", "--config", "tiny", "--tuned", "none"),
        ("run", "NET.vdla"),
        ("inspect", "NET.vdla"),
    )


def steps(rng: Random) -> Iterator[Step]:
    """Yield two commands under the settings."""
    for arguments in rng.sample(commands(), 2):
        yield Step(arguments, settings=read)

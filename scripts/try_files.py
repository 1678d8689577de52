#!/usr/bin/env python3
"""Try ONNX files as a newcomer does: `vdla compile FILE --calibrate SAMPLES`, and nothing else.

Samples are FOLDER/NAME.npz with --samples FOLDER, else random: eight of each input, with the least open
extents for which onnxruntime runs the file. A line for each file says what became of it; the message of a
refused file follows. Exit status 1 where a command ended with a traceback, by a signal or by the time limit.
"""

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

import click
import numpy as np
import onnxruntime
from onnx import TypeProto, helper, load

from vdla.cli._options import reports_errors
from vdla.hw.spec.children import Finished, python_command, run
from vdla.runtime.arrays import write_npz

Arrays = dict[str, np.ndarray]
COUNT, SEED = 8, 0
EXTENTS = (1, 16, 32, 48, 64, 128, 160, 256, 320, 512, 576, 640)
MOST_INTEGER = 4  # of random integers: indices and lengths stay small
COMPILED, REFUSED, FAILED = "compiled", "refused", "FAILED"
SHARE = re.compile(r"([\d.]+)% of them on the accelerator")
LAUNCHES = re.compile(r"instructions in (\d+) launch")
WORST = re.compile(r"^ .*? (-?[\d.]+) dB(?:  LOST.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Tried:
    """What became of a file.

    Attributes:
        state: COMPILED, REFUSED or FAILED.
        seconds: that the command took.
        text: what it printed; of a command that failed, its messages.
    """

    name: str
    state: str
    seconds: float
    text: str

    def __str__(self) -> str:
        if self.state != COMPILED:
            return f"{self.name:50} {self.state:9}{self.seconds:6.1f} s\n    {self.text}"
        share, launches = (_first(pattern, self.text) for pattern in (SHARE, LAUNCHES))
        ratios = [float(text) for text in WORST.findall(self.text)]
        worst = f"{min(ratios):6.1f} dB" if ratios else f"{'-':>9}"
        return f"{self.name:50} {self.state:9}{self.seconds:6.1f} s{share:>8}%{launches:>4} launches{worst}"


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else "-"


def shapes_of(extent: int, dims: TypeProto.Tensor) -> tuple[int, ...]:
    """Return the shape of an input whose open extents are `extent`; the first of them is a batch of 1."""
    return tuple(
        dim.dim_value if dim.dim_value > 0 else 1 if place == 0 else extent
        for place, dim in enumerate(dims.shape.dim)
    )


def random_array(rng: np.random.Generator, code: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of an ONNX element type."""
    dtype = helper.tensor_dtype_to_np_dtype(code)
    if np.issubdtype(dtype, np.integer) or np.issubdtype(dtype, np.bool_):
        return rng.integers(0, MOST_INTEGER, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def random_samples(model: Path) -> Arrays | None:
    """Return samples, stacked along a new first axis; None where onnxruntime runs none of them."""
    graph = load(str(model), load_external_data=False).graph
    given = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in given]
    for extent in EXTENTS:
        rng = np.random.default_rng(SEED)
        samples = [
            {
                value.name: random_array(
                    rng, value.type.tensor_type.elem_type, shapes_of(extent, value.type.tensor_type)
                )
                for value in inputs
            }
            for _ in range(COUNT)
        ]
        if runs(model, samples[0]):
            return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    return None


def runs(model: Path, sample: Arrays) -> bool:
    """Whether onnxruntime runs a file on a sample."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"]).run(None, sample)
    except Exception:  # of many kinds, none of which is a fault of the kit
        return False
    return True


def state_of(done: Finished) -> str:
    """Return what an exit status says; a traceback is a failure whatever the status."""
    if done.status == 0:
        return COMPILED
    return REFUSED if done.status == 2 and "Traceback" not in done.errors else FAILED


def tried(model: Path, name: str, samples: Path | None, folder: Path, seconds: float, *options: str) -> Tried:
    """Compile a file in a separate process."""
    words = ["compile", str(model), "-o", str(folder / "module.vdla"), *options]
    if samples is not None:
        words += ["--calibrate", str(samples)]
    began = time.perf_counter()
    try:
        done = run([*python_command("vdla"), *words], seconds=seconds)
    except TimeoutExpired:
        return Tried(name, FAILED, seconds, f"not done in {seconds:g} s")
    state = state_of(done)
    text = done.output if state == COMPILED else done.errors.strip()
    return Tried(name, state, time.perf_counter() - began, text)


def samples_of(model: Path, known: Path | None, folder: Path) -> Path | None:
    """Return the file of a model's samples: a known file, or a file that is written now."""
    if known is not None and (known / f"{model.stem}.npz").exists():
        return known / f"{model.stem}.npz"
    arrays = random_samples(model)
    if arrays is None:
        return None
    write_npz(folder / "samples.npz", arrays)
    return folder / "samples.npz"


def files_of(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield files with their names; the files of a folder in order."""
    for path in paths:
        if path.is_dir():
            yield from ((file, str(file.relative_to(path))) for file in sorted(path.rglob("*.onnx")))
        else:
            yield path, path.name


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--samples", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seconds", default=300.0, show_default=True, help="Time limit of a command.")
@click.option("--config", default="default", show_default=True)
@reports_errors
def main(paths: tuple[Path, ...], samples: Path | None, seconds: float, config: str) -> None:
    counts: Counter[str] = Counter()
    for model, name in files_of(paths):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            outcome = tried(
                model, name, samples_of(model, samples, folder), folder, seconds, "--config", config
            )
        counts[outcome.state] += 1
        click.echo(outcome)
    click.echo(", ".join(f"{count} {state}" for state, count in counts.items()))
    sys.exit(1 if counts[FAILED] else 0)


if __name__ == "__main__":
    main()

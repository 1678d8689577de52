"""The stored output of measurements: docs/figures.json."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from figures.declared import ROOT, Measurement
from vdla.hw.spec.children import run
from vdla.hw.spec.writing import write_text

STORE = ROOT / "docs" / "figures.json"
MESSAGE = 1000  # characters of a failed command that are shown


@dataclass(frozen=True)
class Output:
    """What a command printed.

    Attributes:
        digest: of the measurement when it ran.
    """

    digest: str
    text: str


class MeasureError(Exception):
    """A command failed."""


def read_store(path: Path = STORE) -> dict[str, Output]:
    """Return the stored outputs by name; none where there is no store."""
    if not path.exists():
        return {}
    return {name: Output(**values) for name, values in json.loads(path.read_text()).items()}


def write_store(outputs: Mapping[str, Output], path: Path = STORE) -> None:
    """Write the stored outputs, by name."""
    values = {name: asdict(output) for name, output in sorted(outputs.items())}
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def stale(declared: Mapping[str, Measurement], outputs: Mapping[str, Output]) -> Iterator[Measurement]:
    """Yield measurements without output, and exact measurements whose sources have changed since they ran."""
    for measurement in declared.values():
        stored = outputs.get(measurement.name)
        if measurement.depends and (
            stored is None or (not measurement.dated and stored.digest != measurement.digest)
        ):
            yield measurement


def measure(measurement: Measurement, declared: Mapping[str, Measurement], prepared: set[str]) -> Output:
    """Run a command, and before it the commands whose files it reads.

    Args:
        prepared: names of measurements that ran already; measurements that run now are added.

    Raises:
        MeasureError: a command failed.
    """
    for name in measurement.after:
        if name not in prepared:
            measure(declared[name], declared, prepared)
    done = run(measurement.arguments, ROOT)
    if done.status:
        raise MeasureError(
            f"{measurement.command} exited with {done.status}: {done.errors.strip()[-MESSAGE:]}"
        )
    prepared.add(measurement.name)
    return Output(measurement.digest, kept(measurement, done.output.splitlines()))


def kept(measurement: Measurement, lines: Iterable[str]) -> str:
    """Return the lines of an output that are stored."""
    return "\n".join(line for line in lines if not measurement.omit or not re.search(measurement.omit, line))

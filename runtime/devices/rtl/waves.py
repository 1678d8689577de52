"""Waveforms of runs: what is asked for, and files that are written whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vdla.hw.spec.errors import DeviceError, OutputError, VdlaError
from vdla.hw.spec.writing import check_writable, whole_file
from vdla.runtime.devices.rtl.model import ROOM, Model

FOREVER = (1 << 63) - 1
_FST_LENGTH_BYTES = 8


class WaveFormat(StrEnum):
    """The format of a waveform, as the ending of its file."""

    VCD = ".vcd"
    FST = ".fst"


@dataclass(frozen=True, slots=True)
class Waves:
    """Waveforms to write.

    Cycle 0 is that in which START is accepted, as in timelines. A cycle takes 10 ns of a waveform and begins
    with the rising edge of the clock.

    Attributes:
        path: of the first run; its ending names the format. Files of later runs have a number.
        first, last: cycles of each run that are recorded, both included; None: to the end.

    Raises:
        OutputError: the ending belongs to no format, or there is no cycle between `first` and `last`.
    """

    path: Path
    first: int = 0
    last: int | None = None

    def __post_init__(self) -> None:
        if self.path.suffix not in list(WaveFormat):
            raise OutputError(
                f"{self.path} is no name of a waveform: it must end in {' or '.join(WaveFormat)}"
            )
        if self.first < 0 or (self.last is not None and self.last < self.first):
            raise OutputError(
                f"there are no cycles from {self.first} to {self.last} to record; give the first, from 0 on, "
                "and the last"
            )

    @property
    def format(self) -> WaveFormat:
        """The format that the ending of the path names."""
        return WaveFormat(self.path.suffix)

    def file(self, run: int) -> Path:
        """Return the file of a run, counted from 0."""
        return self.path.with_name(f"{self.path.stem}-{run + 1}{self.path.suffix}") if run else self.path


class Recording:
    """Writes the waveforms of a device.

    Attributes:
        written: the files, in the order of their runs.
    """

    def __init__(self, waves: Waves) -> None:
        check_writable(waves.path)
        self._waves = waves
        self._runs = 0
        self.written: list[Path] = []

    @contextmanager
    def of(self, model: Model) -> Iterator[None]:
        """Record the run that starts in the next cycle.

        The file appears when the run has ended, well or with an error of the kit; a run that ended
        before the first cycle to record has none.

        Raises:
            OutputError: the file cannot be written.
            DeviceError: the disk has no room for it.
        """
        target = self._waves.file(self._runs)
        self._runs += 1
        with tempfile.TemporaryDirectory(prefix="vdla-waves-") as folder:
            draft = Path(folder) / f"draft{self._waves.format}"
            last = FOREVER if self._waves.last is None else self._waves.last
            model.record(draft, self._waves.first, last)
            try:
                yield
            except VdlaError:
                self._publish(model, draft, target)
                raise
            finally:
                model.recorded()
            self._publish(model, draft, target)

    def _publish(self, model: Model, draft: Path, target: Path) -> None:
        if not model.recorded():
            return
        if self._waves.format is WaveFormat.FST:
            _check_whole(draft)
        with draft.open("rb") as source, whole_file(target, "wb") as file:
            shutil.copyfileobj(source, file)
        self.written.append(target)


def _check_whole(path: Path) -> None:
    """Raise DeviceError when an FST file does not end with the end of a block: the writer does not say so."""
    size, place = path.stat().st_size, 0
    with path.open("rb") as file:
        while place < size:
            file.seek(place + 1)
            length = int.from_bytes(file.read(_FST_LENGTH_BYTES), "big")
            place += 1 + max(length, _FST_LENGTH_BYTES)
    if place != size or size == 0:
        raise DeviceError(f"the waveform cannot be written: it is cut off after {size} bytes; {ROOM}")

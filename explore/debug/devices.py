"""Comparison of the runs of one vector on several devices: a recording that shows where they differ first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.differences import dram_differences
from vdla.explore.debug.dram import Difference, Note
from vdla.explore.debug.launches import vector_recording
from vdla.explore.debug.recording import NONE, Recording
from vdla.runtime.vectors import Segment, Vector
from vdla.sim.records import ByteArray

THE_VECTOR = "the vector"


@dataclass(frozen=True, eq=False)
class DeviceRun:
    """A run of a vector on a device.

    Attributes:
        device: its name.
        dram: uint8[bytes], DRAM after the run.
        cycles: of the run; None on untimed devices, and if the run failed.
        error: why the device refused the program; empty if it did not.
        index: the instruction that the error names; NONE where it names none.
    """

    device: str
    dram: ByteArray
    cycles: int | None = None
    error: str = ""
    index: int = NONE


def differing_recording(vector: Vector, runs: Sequence[DeviceRun]) -> Recording | None:
    """Return the recording of a vector with everything in which runs differ: from the first run, and from the
    vector; None if they do not differ.

    Args:
        runs: on different devices; at least one.
    """
    plain = vector_recording(vector)
    recording = replace(plain, image=replace(plain.image, differences=()))
    contents = Contents(recording)
    differences = [each for run in runs for each in _against(contents, vector, THE_VECTOR, run)]
    for run in runs[1:] if not runs[0].error else []:
        differences += _against(contents, _expecting(vector, runs[0]), runs[0].device, run)
    notes = tuple(_notes(runs))
    if not (differences or notes):
        return None
    started = recording.timing.started
    ordered = sorted(differences, key=lambda each: (each.store == NONE, int(started[each.store])))
    image = replace(recording.image, differences=tuple(ordered), notes=notes)
    return replace(recording, image=image)


def _expecting(vector: Vector, run: DeviceRun) -> Vector:
    """Return a vector that expects what a run has left in DRAM."""
    segments = (
        Segment(each.address, each.initial, run.dram[each.address : each.end]) for each in vector.segments
    )
    return replace(vector, segments=tuple(segments))


def _against(contents: Contents, expected: Vector, name: str, run: DeviceRun) -> Iterator[Difference]:
    """Yield where DRAM after a run that ended well is not as a vector expects."""
    if run.error:
        return
    for each in dram_differences(contents, expected, np.asarray(run.dram)):
        yield replace(each, subject=f"{run.device}, compared with {name}")


def _notes(runs: Sequence[DeviceRun]) -> Iterator[Note]:
    """Yield errors of devices, and that cycles differ."""
    for run in runs:
        if run.error:
            yield Note(f"{run.device}: {run.error}", run.index, True)
    timed = [run for run in runs if run.cycles is not None]
    for run in timed[1:]:
        if run.cycles != timed[0].cycles:
            first = f"{timed[0].device} takes {timed[0].cycles:,} cycles"
            yield Note(f"{first}, and {run.device} takes {run.cycles:,}")

"""A simulated core with its memory, in a shared library."""

import ctypes
import os
from enum import IntFlag
from pathlib import Path

import numpy as np

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.memory import MemoryParameters

_POINTER = ctypes.c_void_p
_WORD = ctypes.c_uint32
_LONG = ctypes.c_uint64
_FUNCTIONS = {
    "model_create": ([_WORD, _WORD, _WORD], _POINTER),
    "model_create_sdram": ([_POINTER], _POINTER),
    "model_restart": ([_POINTER], None),
    "model_destroy": ([_POINTER], None),
    "model_attach": ([_POINTER, _POINTER, _LONG], None),
    "model_reset": ([_POINTER], None),
    "model_read": ([_POINTER, _WORD, _WORD], _WORD),
    "model_write": ([_POINTER, _WORD, _WORD], _LONG),
    "model_poll": ([_POINTER, _WORD, _WORD, _LONG], ctypes.c_bool),
    "model_cycle": ([_POINTER], _LONG),
    "model_last_transfer": ([_POINTER], _LONG),
    "model_protocol": ([_POINTER], _WORD),
    "model_record": ([_POINTER, ctypes.c_char_p, _LONG, _LONG], ctypes.c_bool),
    "model_recorded": ([_POINTER], ctypes.c_int64),
}

ROOM = "record fewer cycles, or name a folder with more room in TMPDIR"


SdramTimings = tuple[int, ...]
"""The values of `vdla.hw.spec.sdram.sdram_timing`."""


class Protocol(IntFlag):
    """Ways in which a core can break the contract of its memory port; the values are as in
    `memory.hpp`."""

    ADDRESS_BETWEEN_BEATS = 1 << 0
    BURST_LENGTH = 1 << 1
    BURST_CROSSES_BOUNDARY = 1 << 2
    LAST_MISPLACED = 1 << 3
    REQUEST_WITHDRAWN = 1 << 4


class Model:
    """One core and its memory, stepped cycle by cycle in C++.

    Args:
        library: what `build_library` returned.
        memory: timing of the reference memory, or of an SDRAM.
    """

    def __init__(self, library: Path, memory: MemoryParameters | SdramTimings) -> None:
        self._calls = ctypes.CDLL(str(library))
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(self._calls, name)
            function.argtypes, function.restype = arguments, result
        self._image: np.ndarray | None = None
        if isinstance(memory, tuple):
            self._model = self._calls.model_create_sdram((ctypes.c_int64 * len(memory))(*memory))
        else:
            self._model = self._calls.model_create(memory.latency, memory.depth, memory.cycles_per_beat)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the model's memory back; nothing can be called afterwards."""
        model, self._model = getattr(self, "_model", None), None
        if model:
            self._calls.model_destroy(model)

    def attach(self, image: np.ndarray) -> None:
        """Let the memory read and write `image` (uint8) itself.

        Raises:
            DeviceError: the model was closed.
        """
        if not self._model:
            raise DeviceError("this RTL device was closed; make a new one, or reset it")
        self._image = image  # keeps it alive
        self._calls.model_attach(self._model, image.ctypes.data, image.size)

    def restart(self) -> None:
        """Let the next cycle be the first of a run for an SDRAM, whose refreshes are counted from there."""
        self._calls.model_restart(self._model)

    def reset(self) -> None:
        """Reset the core's registers and forget what memory has in flight; scratchpads keep their
        contents."""
        self._calls.model_reset(self._model)

    def read(self, offset: int, cycles: int = 1) -> int:
        """Return the register at byte `offset`; takes as many `cycles` as that register needs."""
        return int(self._calls.model_read(self._model, offset, cycles))

    def write(self, offset: int, value: int) -> int:
        """Write the register at byte `offset`; takes one cycle, whose number is returned."""
        return int(self._calls.model_write(self._model, offset, value))

    def poll(self, offset: int, mask: int, cycles: int) -> bool:
        """Step until the register at `offset` has a bit of `mask`, at most `cycles` cycles; return whether
        it had such a bit.

        The bit was first high in the last cycle that was stepped, `cycle - 1`.
        """
        return bool(self._calls.model_poll(self._model, offset, mask, cycles))

    @property
    def cycle(self) -> int:
        """Cycles stepped so far, which is the number of the next cycle."""
        return int(self._calls.model_cycle(self._model))

    @property
    def last_transfer(self) -> int:
        """Number of the last cycle in which memory accepted a request or moved a beat."""
        return int(self._calls.model_last_transfer(self._model))

    @property
    def protocol(self) -> Protocol:
        """How the core has broken the memory port's contract since the last reset."""
        return Protocol(self._calls.model_protocol(self._model))

    def record(self, path: Path, first: int, last: int) -> None:
        """Write a waveform of cycles `first` to `last`, where cycle 0 is the next cycle.

        Only a library that was built for waveforms can do so.

        Raises:
            DeviceError: the file cannot be opened.
        """
        if not self._calls.model_record(self._model, os.fsencode(path), first, last):
            raise DeviceError(
                f"the waveform cannot be written to {path.parent}, the folder for temporary files"
            )

    def recorded(self) -> int:
        """Complete the waveform; return how many cycles it shows.

        Raises:
            DeviceError: the disk has not taken all of it.
        """
        cycles = int(self._calls.model_recorded(self._model))
        if cycles < 0:
            raise DeviceError(f"the waveform cannot be written: {os.strerror(-cycles)}; {ROOM}")
        return cycles

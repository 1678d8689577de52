"""Devices of the board in Python, and programs for them."""

from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

from tests.programs.cases import FILL, all_out, store
from vdla.boards.board_file import BoardFile, to_toml
from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.board.device import BoardDevice
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES = 1 << 16
STREAM, RESULT = 0x8000, 0x4000
COPY = codec.to_bytes([FILL, *all_out()[:1], store(4, address=RESULT, pop_prev=1), isa.Finish()], TINY)
"""A stream that stores rows that come from DRAM at RESULT."""


def with_port(file: BoardFile, port: str) -> BoardFile:
    """Return a board file with another port."""
    return msgspec.structs.replace(file, link=msgspec.structs.replace(file.link, port=port))


@contextmanager
def opened(file: BoardFile, folder: Path, dram_bytes: int = DRAM_BYTES):
    """Yield a device of a board file, which closes at the end."""
    path = folder / "board.toml"
    path.write_text(to_toml(file))
    device = BoardDevice(TINY, dram_bytes, board=str(path))
    try:
        yield device
    finally:
        device.close()


def image(seed: int = 1) -> np.ndarray:
    """Return random contents of DRAM below STREAM."""
    return np.random.default_rng(seed).integers(0, 256, STREAM, np.uint8)


def expected(seed: int = 1) -> np.ndarray:
    """Return DRAM below STREAM after COPY ran on `image(seed)`."""
    return ran(FunctionalDevice(TINY, DRAM_BYTES), seed)


def ran(device, seed: int = 1) -> np.ndarray:
    """Run COPY on `image(seed)`; return DRAM below STREAM."""
    device.copy_in(0, image(seed))
    device.copy_in(STREAM, COPY)
    device.run(STREAM, len(COPY) // TINY.instruction_bytes)
    return device.copy_out(0, STREAM)

"""The record: what stands in the DRAM of a board, kept there for the next process.

It lists ranges of pages with a digest of their contents, at the end of DRAM. A range is taken off the record
before anything changes it, so a process that ends at any time leaves a true record. A reset of the board ends
it: who initialises DRAM drops it.
"""

import hashlib
import struct
from collections.abc import Mapping

import numpy as np

from vdla.runtime.device import PAGE_BYTES, DeviceLostError
from vdla.runtime.devices.board.driver import TRIES, Driver
from vdla.runtime.devices.board.link import WireError

RECORD_PAGES = 4
MAGIC = b"VDLA\x01"
_COUNT, _RANGE = struct.Struct("<5sxH"), struct.Struct("<II32s")
DIGEST_BYTES = 32
MOST_RANGES = (RECORD_PAGES * PAGE_BYTES - _COUNT.size - DIGEST_BYTES) // _RANGE.size
Range = tuple[int, int]
"""First page, and number of pages."""


def digest_of_pages(contents: np.ndarray) -> bytes:
    """Return the digest of uint8[bytes]."""
    return hashlib.sha256(contents.tobytes()).digest()


def encoded(ranges: Mapping[Range, bytes]) -> np.ndarray:
    """Return a record as uint8[bytes], a multiple of 4; at most MOST_RANGES ranges, the largest ones."""
    largest = sorted(ranges, key=lambda each: -each[1])[:MOST_RANGES]
    rows = b"".join(_RANGE.pack(*each, ranges[each]) for each in sorted(largest))
    body = _COUNT.pack(MAGIC, len(largest)) + rows
    return np.frombuffer(body + hashlib.sha256(body).digest(), np.uint8)


def decoded(contents: np.ndarray) -> dict[Range, bytes]:
    """Return the ranges of a record, uint8[bytes]; none if it is not a record, or damaged."""
    raw = contents.tobytes()
    magic, count = _COUNT.unpack_from(raw)
    size = _COUNT.size + count * _RANGE.size
    if (
        magic != MAGIC
        or count > MOST_RANGES
        or hashlib.sha256(raw[:size]).digest() != raw[size : size + DIGEST_BYTES]
    ):
        return {}
    rows = _RANGE.iter_unpack(raw[_COUNT.size : size])
    return {(first, pages): digest for first, pages, digest in rows}


class Record:
    """The record of a board.

    Args:
        driver: of the board.
        used_bytes: of DRAM that the device uses; a board without room behind them has no record.

    Attributes:
        ranges: that the record lists, with their digests.
    """

    def __init__(self, driver: Driver, used_bytes: int) -> None:
        self._driver = driver
        self._address = driver.file.map.memory_bytes - RECORD_PAGES * PAGE_BYTES
        self._has_room = self._address >= used_bytes
        self.ranges: dict[Range, bytes] = {}

    def read(self) -> None:
        """Read the record from the board.

        Raises:
            DeviceLostError: the board does not answer.
        """
        if not self._has_room:
            return
        header = self._driver.read_dram(self._address, _COUNT.size)
        magic, count = _COUNT.unpack(header.tobytes())
        if magic == MAGIC and count <= MOST_RANGES:
            size = _COUNT.size + count * _RANGE.size + DIGEST_BYTES
            self.ranges = decoded(self._driver.read_dram(self._address, size))

    def write(self, ranges: Mapping[Range, bytes]) -> bool:
        """Write another record; return whether the wire was without faults.

        Raises:
            DeviceLostError: the board does not keep it.
        """
        if not self._has_room or ranges == self.ranges:
            return True
        contents = encoded(ranges)
        for attempt in range(TRIES):
            try:
                self._driver.write_dram(self._address, contents)
            except WireError:
                self._driver.settle()
            if np.array_equal(self._driver.read_dram(self._address, contents.size), contents):
                self.ranges = decoded(contents)
                return attempt == 0
        self._driver.forget_initialisation()
        raise DeviceLostError(
            f"the DRAM of board {self._driver.file.board.name} does not keep what is written at "
            f"{self._address:#x} in {TRIES} attempts; check cable and power, and run again"
        )

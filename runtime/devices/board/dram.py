"""The DRAM of a board behind a wire, with a copy of it on the host.

Each page is in one of three states:

- *dirty*: the copy is newer, or the page was never written; the board has the page when a run needs it.
- *clean*: board and copy are equal.
- *stale*: a run may have stored into it; the host reads it when it needs it.

Only dirty pages of a run go over the wire. Constants therefore do once, and equal inputs do not go again. The
record keeps what is clean for the next process, which compares digests and a sample of the words.

A damaged write may have reached any page. Clean pages are then no longer *sure*, and each page that the run
needs is read back before it starts.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping

import numpy as np

from vdla.hw.spec.errors import DeviceError
from vdla.runtime.device import PAGE_BYTES, DeviceLostError
from vdla.runtime.devices.board.driver import TRIES, Driver
from vdla.runtime.devices.board.link import WORD_BYTES, WireError

SAMPLES = 16  # words of a range that are compared with the record
BLOCK_PAGES = 4  # that are written, read back and repeated together
Pages = np.ndarray
"""int64[n]: numbers of pages, ascending."""
RECORD_PAGES = 4
MAGIC = b"VDLA\x01"
_COUNT, _RANGE = struct.Struct("<5sxH"), struct.Struct("<II32s")
DIGEST_BYTES = 32
MOST_RANGES = (RECORD_PAGES * PAGE_BYTES - _COUNT.size - DIGEST_BYTES) // _RANGE.size
Range = tuple[int, int]
"""First page, and number of pages."""


class BoardDram:
    """DRAM of a board, page by page.

    Args:
        driver: of the board, whose DRAM is initialised.
        copy: uint8[bytes], a multiple of PAGE_BYTES: the copy on the host.
        kept: DRAM has kept its contents since the process before this process.
    """

    def __init__(self, driver: Driver, copy: np.ndarray, *, kept: bool) -> None:
        self._driver, self._copy = driver, copy
        count = copy.size // PAGE_BYTES
        self._clean, self._sure, self._stale = (np.zeros(count, bool) for _ in range(3))
        self._record = Record(driver, copy.size)
        self._once: dict[Range, bool] = {}  # ranges that were written, and whether never changed since
        if kept:
            self._record.read()

    def write(self, address: int, source: np.ndarray) -> None:
        """Write uint8[bytes] into the copy; changed pages are dirty, unless the record has them."""
        end = address + source.size
        pages = pages_of(np.array([address]), np.array([end]))
        covered = np.arange(-(-address // PAGE_BYTES), end // PAGE_BYTES)
        self.fetch(np.setdiff1d(pages, covered))
        changed = np.flatnonzero(self._copy[address:end] != source) + address
        self._copy[address:end] = source
        dirty = np.unique(np.append(changed // PAGE_BYTES, pages[self._stale[pages]]))
        self._clean[dirty] = self._stale[dirty] = False
        if pages.size:
            self._note((int(pages[0]), len(pages)), bool(dirty.size))

    def _note(self, written: Range, changed: bool) -> None:
        """Note that a range was written. Its pages are clean if an earlier process left them on the board."""
        first = written not in self._once
        self._once[written] = first or (self._once[written] and not changed)
        known = self._record.ranges.get(written)
        if first and known is not None and known == self._digest(written) and self._has_sample(written):
            pages = np.arange(written[0], sum(written))
            self._clean[pages] = self._sure[pages] = True

    def _digest(self, pages: Range) -> bytes:
        return digest_of_pages(self._copy[pages[0] * PAGE_BYTES : sum(pages) * PAGE_BYTES])

    def _has_sample(self, pages: Range) -> bool:
        """Return whether the board has the copy's words at SAMPLES random places of a range."""
        places = np.random.default_rng().integers(pages[0] * PAGE_BYTES, sum(pages) * PAGE_BYTES, SAMPLES)
        words = (places // WORD_BYTES * WORD_BYTES).tolist()
        return all(
            np.array_equal(self._driver.read_dram(at, WORD_BYTES), self._copy[at : at + WORD_BYTES])
            for at in words
        )

    def publish(self) -> None:
        """Put the ranges that are clean, and were written once, on the record.

        Raises:
            DeviceLostError: as `distrust`.
        """
        listed = {
            each: self._digest(each)
            for each, once in self._once.items()
            if once and self._sure[each[0] : sum(each)].all() and self._clean[each[0] : sum(each)].all()
        }
        self._rewrite({**self._record.ranges, **listed})

    def withdraw(self, pages: Pages) -> None:
        """Take the ranges that hold one of `pages`, which are about to change, off the record.

        Raises:
            DeviceLostError: as `distrust`.
        """
        touched = np.zeros(self._clean.size, bool)
        touched[pages] = True
        self._rewrite(
            {
                each: value
                for each, value in self._record.ranges.items()
                if not touched[each[0] : sum(each)].any()
            }
        )

    def _rewrite(self, ranges: dict[Range, bytes]) -> None:
        if not self._record.write(ranges):
            self.distrust()

    def fetch(self, pages: Pages) -> None:
        """Read the stale pages among `pages` from the board.

        Raises:
            DeviceLostError: the board was reset, or does not answer.
        """
        stale = pages[self._stale[pages]]
        for first, last in _blocks(stale):
            begin, end = first * PAGE_BYTES, (last + 1) * PAGE_BYTES
            self._copy[begin:end] = self._driver.read_dram(begin, end - begin)
        if stale.size:
            self._driver.require_alive()
        self._stale[stale] = False
        self._clean[stale] = True

    def upload(self, pages: Pages) -> None:
        """Make `pages` equal on board and host: write the dirty pages among them, and read them back.

        Raises:
            DeviceError: DRAM does not keep what is written.
            DeviceLostError: a damaged write may have reached results that the host has not read; or the board
                was reset, or does not answer.
        """
        wanted = pages[~self._stale[pages]]
        for attempt in range(TRIES):
            dirty = wanted[~self._clean[wanted]]
            if dirty.size:
                self.withdraw(dirty)
            self._write(dirty)
            self._sure[dirty] = False
            unsure = wanted[~self._sure[wanted]]
            bad = self._different(unsure)
            self._clean[unsure] = self._sure[unsure] = True
            self._clean[bad] = False
            if not bad.size:
                if dirty.size:
                    self._driver.require_alive()
                return
            self._driver.require_alive()
            self.distrust()
            if attempt == TRIES // 2:  # a damaged write may have reached the controller of DRAM
                self._initialise_again()
        self._driver.forget_initialisation()
        raise DeviceError(
            f"the DRAM of board {self._driver.file.board.name} does not keep what is written at "
            f"{int(bad[0]) * PAGE_BYTES:#x} in {TRIES} attempts; check cable and power, and build the board "
            "for a slower clock"
        )

    def _initialise_again(self) -> None:
        """Initialise DRAM, which loses its contents."""
        self._driver.forget_initialisation()
        self._driver.initialise()
        self._clean[:] = False

    def distrust(self) -> None:
        """Check every page again before a run uses it: a damaged write may have reached any of them.

        Raises:
            DeviceLostError: there are results that the host has not read, and nothing to compare them with.
        """
        self._sure[:] = False
        if self._stale.any():
            raise DeviceLostError(
                f"a write to board {self._driver.file.board.name} was damaged on the wire while its DRAM "
                "held results that the host had not read; check the cable, and run again"
            )

    def stored(self, pages: Pages) -> None:
        """Note that a run may store into `pages`."""
        self._stale[pages] = True
        self._clean[pages] = False

    def _write(self, pages: Pages) -> None:
        for first, last in _blocks(pages):
            begin = first * PAGE_BYTES
            try:
                self._driver.write_dram(begin, self._copy[begin : (last + 1) * PAGE_BYTES])
            except WireError:  # reading back shows what is missing
                self._driver.settle()

    def _different(self, pages: Pages) -> Pages:
        """Return the pages among `pages` in which board and copy differ.

        A block that differs in the first read is read again, because that read may have been damaged.
        """
        different = [np.zeros(0, np.int64)]
        for first, last in _blocks(pages):
            begin = first * PAGE_BYTES
            wanted = self._copy[begin : (last + 1) * PAGE_BYTES]
            if not self._driver.holds(begin, wanted):
                actual = self._driver.read_dram(begin, wanted.size)
                differs = np.any((actual != wanted).reshape(-1, PAGE_BYTES), axis=1)
                different.append(first + np.flatnonzero(differs))
        return np.concatenate(different)


def pages_of(begins: np.ndarray, ends: np.ndarray) -> Pages:
    """Return the pages that hold a byte of the intervals [begin, end), int64[k] each."""
    parts = [
        np.arange(begin // PAGE_BYTES, -(-end // PAGE_BYTES))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        if begin < end
    ]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *parts]))


def _blocks(pages: Pages) -> Iterator[tuple[int, int]]:
    """Yield first and last page of runs of neighbours, at most BLOCK_PAGES long."""
    if not pages.size:
        return
    for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
        for first in range(0, len(run), BLOCK_PAGES):
            part = run[first : first + BLOCK_PAGES]
            yield int(part[0]), int(part[-1])


def digest_of_pages(contents: np.ndarray) -> bytes:
    """Return the digest of uint8[bytes]."""
    return hashlib.sha256(contents.tobytes()).digest()


def encoded(ranges: Mapping[Range, bytes]) -> np.ndarray:
    """Return a record as uint8[bytes], a multiple of 4; at most MOST_RANGES ranges, the largest."""
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
    """The record of what stands in the DRAM of a board, kept there for the next process.

    It lists ranges of pages with digests of their contents, at the end of DRAM. A range is taken off the
    record before anything changes it, so a process that ends at any time leaves a true record. A reset of the
    board ends it: who initialises DRAM drops it.

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

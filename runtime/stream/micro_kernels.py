"""Micro-kernels in micro-op memory: each is loaded once, and again only when the least recently used had to
make room."""

from bisect import bisect
from collections import OrderedDict
from functools import cached_property
from typing import NamedTuple

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.encode import encode_micro_ops

MicroOps = tuple[tuple[int, int, int], ...]  # dst, src, wgt of each


class MicroKernel(tuple[tuple[int, int, int], ...]):
    """Micro-ops, with what is asked of them again and again computed once."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and the greatest dst, src and wgt."""
        return tuple((min(indices), max(indices)) for indices in zip(*self, strict=True))


class Placement(NamedTuple):
    """Where a micro-kernel stands, and whether it must be loaded there first."""

    begin: int
    must_load: bool


class MicroKernels:
    """What micro-op memory holds, and all micro-ops that have ever been asked for, as they stand in DRAM.

    Args:
        config: the accelerator.

    Attributes:
        words: the encoded micro-ops of all kernels, one kernel after another.
        starts: of each kernel in `words`.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.words: list[int] = []
        self.starts: dict[MicroOps, int] = {}
        self._held: OrderedDict[MicroOps, Placement] = OrderedDict()  # least recently used first
        self._depth = config.depth(MemoryType.UOP)
        self._gaps = [(0, self._depth)]  # [begin, end) of what is free, in order; no two of them touch

    def place(self, kernel: MicroOps) -> Placement:
        """Return where `kernel` stands in micro-op memory.

        Raises:
            ProgramError: it is longer than the memory.
        """
        if (placement := self._held.get(kernel)) is not None:
            self._held.move_to_end(kernel)
            return placement
        if len(kernel) > self._depth:
            raise ProgramError(
                f"a micro-kernel of {len(kernel)} micro-ops does not fit micro-op memory, which holds "
                f"{self._depth}"
            )
        self._intern(kernel)
        begin = self._free_place(len(kernel))
        self._held[kernel] = Placement(begin, False)
        return Placement(begin, True)

    def _intern(self, kernel: MicroOps) -> None:
        if kernel not in self.starts:
            self.starts[kernel] = len(self.words)
            self.words += encode_micro_ops(kernel, self.config)

    def _free_place(self, size: int) -> int:
        """Take the first gap of `size`, forgetting kernels until there is such a gap; return its begin."""
        while (place := self._first_gap(size)) is None:
            kernel, placement = self._held.popitem(last=False)
            self._release(placement.begin, placement.begin + len(kernel))
        begin, end = self._gaps[place]
        self._gaps[place : place + 1] = [(begin + size, end)] if begin + size < end else []
        return begin

    def _first_gap(self, size: int) -> int | None:
        return next((place for place, (begin, end) in enumerate(self._gaps) if end - begin >= size), None)

    def _release(self, begin: int, end: int) -> None:
        """Add a gap, joined with the gaps that it touches."""
        place = bisect(self._gaps, (begin, end))
        if place < len(self._gaps) and self._gaps[place][0] == end:
            _, end = self._gaps.pop(place)
        if place and self._gaps[place - 1][1] == begin:
            place -= 1
            begin, _ = self._gaps.pop(place)
        self._gaps.insert(place, (begin, end))

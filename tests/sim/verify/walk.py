"""The verifier's findings about elements on chip, by a plain walk of every step: slow and simple."""

from collections import defaultdict
from itertools import product

import numpy as np

from tests.sim.helpers import ACC, INP, UOP, WGT
from vdla.hw.spec import codec, isa
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import Parameter
from vdla.sim.decoded import DecodedStream
from vdla.sim.verify.touch import BEYOND, CONFLICT, EMPTY
from vdla.sim.verify.verifier import clocks


class Walk:
    """Follows a program whose DRAM accesses are all in bounds and never conflict.

    Attributes:
        findings: set of (kind, instruction, other instruction, memory, element).
    """

    def __init__(self, program: DecodedStream, dram: np.ndarray) -> None:
        self.program, self.config = program, program.config
        self.words = dram.view(f"<u{self.config.uop_bits // 8}").tolist()
        self.known = clocks(program, np.arange(len(program)))
        self.uops = [isa.MicroOp()] * self.config.depth(UOP)
        self.last = defaultdict(lambda: {"read": [-1] * len(Unit), "write": [-1] * len(Unit)})
        self.filled, self.findings = set(), set()
        for self.index in range(len(program)):
            self._follow(program.instruction(self.index))

    def _follow(self, item: isa.Instruction) -> None:
        match item:
            case isa.Load():
                self._load(item)
            case isa.Store():
                first = item.parameters_base
                for element in range(first, first + len(Parameter)) if item.parameters else ():
                    self._touch("read", ACC, element)
                for element in range(item.sram_base, item.sram_base + item.y_size * item.x_size):
                    self._touch("read", ACC, element)
            case isa.Gemm() | isa.Alu():
                self._loops(item)
            case isa.Depthwise():
                self._rows(item)

    def _load(self, load: isa.Load) -> None:
        for x in range(load.x_size):
            self._touch("write", load.memory_type, load.sram_base + x)
            if load.memory_type == UOP:
                self.uops[load.sram_base + x] = codec.decode_uop(self.words[load.dram_base + x], self.config)

    def _loops(self, item: isa.Gemm | isa.Alu) -> None:
        steps = product(range(item.iter_out), range(item.iter_in), range(item.uop_begin, item.uop_end))
        for i, j, position in steps:
            if not self._step(item, i, j, position):
                return

    def _step(self, item: isa.Gemm | isa.Alu, i: int, j: int, position: int) -> bool:
        def element(name: str) -> int:
            return (
                getattr(self.uops[position], name)
                + i * getattr(item, f"{name}_factor_out")
                + j * getattr(item, f"{name}_factor_in")
            )

        if not self._touch("read", UOP, position):
            return False
        if isinstance(item, isa.Gemm):
            sources = {} if item.reset else {"src": INP, "wgt": WGT}
            reads = not (item.reset or item.overwrite)
        else:
            sources, reads = {} if item.use_imm else {"src": ACC}, True
        fine = [self._touch("read", memory, element(name)) for name, memory in sources.items()]
        return all(fine) and self._touch("write", ACC, element("dst"), reads=reads)

    def _rows(self, item: isa.Depthwise) -> None:
        positions = range(item.uop_begin, item.uop_end) if item.iter_in else ()
        for i, position in product(range(item.iter_out), positions):
            if not self._row(item, i, position):
                return

    def _row(self, item: isa.Depthwise, i: int, position: int) -> bool:
        if not self._touch("read", UOP, position):
            return False
        uop, dst = self.uops[position], self.uops[position].dst + i * item.dst_factor_out
        columns = (item.iter_in - 1) * (1 + item.stride_2) + (5 if item.wide else 3)
        fine = True
        for row in range(1 + item.more_rows):
            src = uop.src + i * item.src_factor_out + row * (2 * item.row_step + 1)
            fine &= all(self._touch("read", INP, src + t * item.src_factor_in) for t in range(columns))
        fine &= self._touch("read", WGT, uop.wgt + i * item.wgt_factor_out)
        sums = (dst + j * item.dst_factor_in for j in range(item.iter_in if fine else 0))
        return fine and all(self._touch("write", ACC, d, reads=not item.overwrite) for d in sums)

    def _touch(self, access: str, memory: int, element: int, *, reads: bool | None = None) -> bool:
        """Account for one access, `reads` before it writes if at all; return whether the element exists."""
        if element >= self.config.depth(memory):
            self.findings.add((BEYOND, self.index, -1, memory, element))
            return False
        place, executing = (memory, element), self.program.unit[self.index]
        if (access == "read" if reads is None else reads) and place not in self.filled:
            self.findings.add((EMPTY, self.index, -1, memory, element))
            self.filled.add(place)
        for kind in ("read", "write") if access == "write" else ("write",):
            for unit, other in enumerate(self.last[place][kind]):
                if unit != executing and other > self.known[self.index, unit]:
                    self._conflict(place, unit, access)
        self.last[place][access][executing] = self.index
        if access == "write":
            self.filled.add(place)
        return True

    def _conflict(self, place: tuple, unit: int, access: str) -> None:
        last = self.last[place]
        other = max(last["write"][unit], last["read"][unit] if access == "write" else -1)
        self.findings.add((CONFLICT, self.index, other, *place))

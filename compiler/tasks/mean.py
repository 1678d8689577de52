"""The mean of each plane: sums by the multiplier array, which requantisation divides by their number."""

from dataclasses import dataclass
from typing import ClassVar

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice, PartedTask, parse_program
from vdla.compiler.tasks.plane_tile import PlaneTile, plane_tile
from vdla.compiler.tasks.program_text import joined, nest
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter

SETS = len(Parameter)


@dataclass(frozen=True, slots=True)
class MeanTask(PartedTask[PlaneTile]):
    """The requantised sum of each plane.

    Attributes:
        blocks: number of channel blocks. The accumulators hold the sums of all blocks at once.
        elements: number of elements of a block, of `batch x block_out` numbers each.
    """

    blocks: int
    elements: int
    SMALLEST: ClassVar[str] = "one sum for each channel"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        if self.blocks + SETS > config.depth(MemoryType.ACC):
            return None
        return plane_tile(self.blocks, self.elements, config.depth(MemoryType.INP), copies)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised sums of X: int8[blocks, elements, batch, block].

        The parameters of the program are P, a single set for all channels, the image X, the identity weights
        W, and the result Z.
        """
        b, o = config.batch, config.block_out
        params = {
            "P": f"int{config.acc_bits}[1, {SETS}, {b}, {o}]",
            "X": f"int8[{self.blocks}, {self.elements}, {b}, {o}]",
            "W": f"int8[1, {o}, {o}]",
            "Z": f"int8[{self.blocks}, {b}, {o}]",
        }
        loops, block, element = tile.loops(self.blocks, self.elements, choice.threads)
        each = {"c": tile.blocks, "e": tile.elements}
        body = (
            f'XL = alloc(int8[{tile.blocks}, {tile.elements}, {b}, {o}], "input")',
            nest(each, f"load_inp(XL[c, e, 0, 0], X[{block} + c, {element} + e, 0, 0])"),
            nest(each, f"gemm(S[{block} + c, 0, 0], XL[c, e, 0, 0], WL[0, 0, 0])"),
        )
        statements = (
            f'PL = alloc({params["P"]}, "parameters")',
            nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])"),
            f'WL = alloc({params["W"]}, "weight")',
            nest({"w": 1}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])"),
            f'S = alloc(int{config.acc_bits}[{self.blocks}, {b}, {o}], "accumulator")',
            nest({"s": self.blocks}, "reset(S[s, 0, 0])"),
            nest(loops, joined(body), threads="thread"),
            nest({"s": self.blocks}, "store_scaled(Z[s, 0, 0], S[s, 0, 0], PL[0, 0, 0, 0])"),
        )
        return parse_program(params, statements, config)

"""The product of an image with a factor per channel, by the ALU."""

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
class ScalingTask(PartedTask[PlaneTile]):
    """The product of planes with a factor per channel.

    Attributes:
        blocks: number of channel blocks in DRAM.
        elements: number of pixels of a plane.
        parts: number of elements per pixel of a block, of `block_out` numbers each.
        zeros: zero points of the planes and of the factors.
    """

    blocks: int
    elements: int
    parts: int
    zeros: tuple[int, int]
    SMALLEST: ClassVar[str] = "one element of a product"

    def tile(self, config: AcceleratorConfig, copies: int) -> PlaneTile | None:
        """Return the tile; see `PartedTask.tile`."""
        room = (config.depth(MemoryType.ACC) - SETS) // self.parts
        beside = room * self.elements // (self.elements + 1) - copies
        return plane_tile(self.blocks, self.elements, beside, copies)

    def tiled(self, tile: PlaneTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program of the requantised product of A: int8[blocks, elements, parts, batch,
        block]
        and F: int8[blocks, parts, batch, block], after subtraction of the zero points.

        The parameters of the program are P, the image A, the factors F and the result Z.
        """
        acc, element = f"int{config.acc_bits}", f"{config.batch}, {config.block_out}"
        params = {
            "P": f"{acc}[1, {SETS}, {element}]",
            "A": f"int8[{self.blocks}, {self.elements}, {self.parts}, {element}]",
            "F": f"int8[{self.blocks}, {self.parts}, {element}]",
            "Z": f"int8[{self.blocks}, {self.elements}, {self.parts}, {element}]",
        }
        loops, block, first = tile.loops(self.blocks, self.elements, choice.threads)
        each = {"c": tile.blocks, "e": tile.elements, "p": self.parts}
        factors, values, place = "FL[c, p, 0, 0]", "S[c, e, p, 0, 0]", f"[{block} + c, {first} + e, p, 0, 0]"
        of_channels = {"c": tile.blocks, "p": self.parts}
        body = (
            f'FL = alloc({acc}[{tile.blocks}, {self.parts}, {element}], "accumulator")',
            nest(of_channels, f"load_acc8({factors}, F[{block} + c, p, 0, 0])"),
            nest(of_channels, f"add_imm({factors}, {factors}, {acc}({-self.zeros[1]}))"),
            f'S = alloc({acc}[{tile.blocks}, {tile.elements}, {self.parts}, {element}], "accumulator")',
            nest(each, f"load_acc8({values}, A{place})"),
            nest(each, f"add_imm({values}, {values}, {acc}({-self.zeros[0]}))"),
            nest(each, f"mul({values}, {values}, {factors})"),
            nest(each, f"store_scaled(Z{place}, {values}, PL[0, 0, 0, 0])"),
        )
        statements = (
            f'PL = alloc({params["P"]}, "parameters")',
            nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])"),
            nest(loops, joined(body), threads="thread"),
        )
        return parse_program(params, statements, config)

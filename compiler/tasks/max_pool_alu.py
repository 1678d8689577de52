"""Max pooling by the ALU. Inputs are loaded into the accumulators."""

from dataclasses import dataclass
from math import prod

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.ir.nodes import Func, Scope
from vdla.compiler.operands.address_map import AddressMap
from vdla.compiler.operands.interleaved import Interleaved
from vdla.compiler.tasks.base import Choice, PartedTask
from vdla.compiler.tasks.scheduling import tensorize, virtual_threads
from vdla.compiler.te.operators.pooling import MaxPoolTensors, max_pool
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.compiler.te.schedule import Schedule, create_schedule
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType

Tile = tuple[int, int]  # rows and columns of the result


@dataclass(frozen=True, slots=True)
class PoolingTask(PartedTask[Tile]):
    """A max pooling by the ALU.

    Attributes:
        reads, writes: number of channel blocks of the input, and of the result, that are interleaved in DRAM
            pixel by pixel, see `vdla.compiler.operands.interleaved`.
    """

    size: Pooling
    reads: int = 1
    writes: int = 1

    @property
    def smallest(self) -> str:
        """The smallest tile."""
        return f"a window of {self.size.kernel}"

    def tile(self, config: AcceleratorConfig, copies: int) -> Tile | None:
        """Return the rows and columns of the largest tile whose inputs and result fit the accumulators; see
        `PartedTask.tile`."""
        size, room = self.size, config.depth(MemoryType.ACC) // copies
        (stride_y, stride_x), (kernel_y, kernel_x) = size.stride, size.kernel

        def elements(rows: int, columns: int) -> int:
            return rows * columns + ((rows - 1) * stride_y + kernel_y) * ((columns - 1) * stride_x + kernel_x)

        height, width = size.out_size
        whole = [(rows, width) for rows in range(blocks(height, copies), 0, -1)]
        partial = [(1, columns) for columns in range(width - 1, 0, -1)]
        return next((tile for tile in (*whole, *partial) if elements(*tile) <= room), None)

    def tiled(self, tile: Tile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program with a tile size."""
        operator = max_pool(self.size, config)
        return schedule_max_pool(operator, tile, config, threads=choice.threads).lower(verified=False)

    def address_maps(self, config: AcceleratorConfig) -> dict[str, AddressMap]:
        """Return the address maps of the program's parameters that are not dense."""
        size, count = self.size, blocks(self.size.channels, config.block_out)
        maps = {
            "X": Interleaved(self.reads, size.height * size.width, count),
            "Z": Interleaved(self.writes, prod(size.out_size), count),
        }
        return {name: address_map for name, address_map in maps.items() if address_map.parts > 1}


def schedule_max_pool(
    operator: MaxPoolTensors, tile: Tile, config: AcceleratorConfig, *, threads: int = 2
) -> Schedule:
    """Return the schedule of a max pooling with a tile size and `threads` virtual threads."""
    schedule, intrinsics = create_schedule(operator.out), accelerator(config)
    handle = schedule[operator.out]
    n, c, y, x, b, j = handle.axis
    rows, columns = tile
    outer_y, inner_y = handle.split(y, rows)
    outer_x, inner_x = handle.split(x, columns)
    outer, thread = virtual_threads(handle, outer_y, threads)
    handle.reorder(n, c, outer_x, outer, *thread, inner_y, inner_x, b, j)
    place = [outer, *thread][-1]
    for tensor in (operator.greatest, operator.wide):
        schedule[tensor].set_scope(Scope.ACCUMULATOR)
        schedule[tensor].compute_at(operator.out, place)
    greatest = schedule[operator.greatest]
    dy, dx = greatest.reduce_axis
    spatial = greatest.axis
    greatest.reorder(*spatial[:2], dy, dx, *spatial[2:])
    tensorize(
        schedule,
        (
            (operator.wide, intrinsics.load_acc),
            (operator.greatest, intrinsics.alu),
            (operator.out, intrinsics.store),
        ),
    )
    return schedule

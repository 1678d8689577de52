"""Max pooling on inputs that the multiplier array widens, by products with the identity.

The load unit loads the inputs, so loads overlap with work on other tiles. The products group rows and columns
by their phase of the stride, so that the maxima are contiguous for STOREs.

The maxima along columns of windows are computed first, then the maxima along rows. Each maximum overwrites an
input that no other window reads. So accumulators need no initialisation, and columns that windows share are
reduced once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice, PartedTask, parse_program
from vdla.compiler.tasks.plane_tile import divisors
from vdla.compiler.tasks.program_text import joined, nest
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType

TILE_LOOPS = ("n", "c", "tx", "ty")
"""Loops over images, blocks of channels, tiles of columns, and tiles of rows."""


def pools_by_multiplier(config: AcceleratorConfig, size: Pooling) -> bool:
    """Whether `config` supports this max pooling: each window has an input that no other window reads, and a
    window fits the scratchpads."""
    return (
        config.block_in == config.block_out
        and AluOpcode.MAX in config.alu_opcodes
        and (config.has(Extension.PAD_MINIMUM) or not any(size.padding))
        and all(kernel < 2 * stride for kernel, stride in zip(size.kernel, size.stride, strict=True))
        and MaximumTask(size).tile(config, 1) is not None
    )


@dataclass(frozen=True, slots=True)
class MaximaTile:
    """A tile of outputs.

    Attributes:
        rows, columns: size; divisors of the output's size.
        threaded: loop of TILE_LOOPS that becomes virtual threads.
    """

    rows: int
    columns: int
    threaded: str


@dataclass(frozen=True, slots=True)
class MaximumTask(PartedTask[MaximaTile]):
    """A max pooling on inputs that the multiplier array widens."""

    size: Pooling

    @property
    def smallest(self) -> str:
        """The smallest tile."""
        return f"a window of {self.size.kernel}"

    def tile(self, config: AcceleratorConfig, copies: int) -> MaximaTile | None:
        """Return the tile with the fewest input reads per output; see `PartedTask.tile`."""
        size = self.size
        room = min(config.depth(MemoryType.INP), config.depth(MemoryType.ACC)) // copies
        candidates = []
        for rows in divisors(size.out_size[0]):
            for columns in divisors(size.out_size[1]):
                read = _read(size, rows, columns)
                trips = _trips(size, config, rows, columns)
                shared = [loop for loop in reversed(TILE_LOOPS) if trips[loop] % copies == 0]
                if read[0] * read[1] <= room and shared:
                    cost = read[0] * read[1] / (rows * columns)
                    candidates.append((cost, -columns, MaximaTile(rows, columns, shared[0])))
        return min(candidates, key=lambda item: item[:2])[2] if candidates else None

    def tiled(self, tile: MaximaTile, choice: Choice, config: AcceleratorConfig) -> Func:
        """Return the loop program. Its parameters are the identity weights W, the input X and the result Z,
        in blocks."""
        size, threads = self.size, choice.threads
        b, o, weights = config.batch, config.block_out, f"int8[1, {config.block_out}, {config.block_out}]"
        outer = f"int8[{blocks(size.batch, b)}, {blocks(size.channels, o)}"
        params = {
            "W": weights,
            "X": f"{outer}, {size.height}, {size.width}, {b}, {o}]",
            "Z": f"{outer}, {size.out_size[0]}, {size.out_size[1]}, {b}, {o}]",
        }
        trips = _trips(size, config, tile.rows, tile.columns)
        loops = {name: trips[name] for name in TILE_LOOPS if name != tile.threaded}
        loops |= {"outer": trips[tile.threaded] // threads, "thread": threads}
        at = {name: name for name in TILE_LOOPS} | {tile.threaded: f"(outer * {threads} + thread)"}
        body = joined(_Body(size, config, tile, at).statements())
        statements = (
            f'WL = alloc({weights}, "weight")',
            nest({"w": 1}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])"),
            nest(loops, body, threads="thread"),
        )
        return parse_program(params, statements, config)


@dataclass(frozen=True)
class _Body:
    """The statements of a tile.

    Attributes:
        at: expression of the tile's position in each loop of TILE_LOOPS.
    """

    size: Pooling
    config: AcceleratorConfig
    tile: MaximaTile
    at: dict[str, str]

    def statements(self) -> Iterator[str]:
        """Yield the program, statement by statement."""
        tile = f"{self.config.batch}, {self.config.block_out}"
        rows, columns = _read(self.size, self.tile.rows, self.tile.columns)
        yield f'XL = alloc(int8[{rows}, {columns}, {tile}], "input")'
        yield nest({"y": rows, "x": columns}, self._load())
        (sy, sx), (ky, kx) = self.size.stride, self.size.kernel
        phases = [
            {phase: len(range(phase, extent, step)) for phase in range(min(step, kernel))}
            for extent, step, kernel in ((rows, sy, ky), (columns, sx, kx))
        ]
        for y, height in phases[0].items():
            for x, width in phases[1].items():
                part = f"L{y}{x}[y, x, 0, 0]"
                yield f'L{y}{x} = alloc(int{self.config.acc_bits}[{height}, {width}, {tile}], "accumulator")'
                yield nest({"y": height, "x": width}, f"reset({part})")
                source = f"XL[y * {sy} + {y}, x * {sx} + {x}, 0, 0]"
                yield nest({"y": height, "x": width}, f"gemm({part}, {source}, WL[0, 0, 0])")
        yield from self._combine(phases[1])
        place = ", ".join((self.at["n"], self.at["c"], self._begin("ty", self.tile.rows) + " + y"))
        place += f", {self._begin('tx', self.tile.columns)} + x"
        yield self._each(self.tile.columns, f"store(Z[{place}, 0, 0], {self._gathered(0, 0)})")

    def _begin(self, loop: str, step: int) -> str:
        return f"{self.at[loop]} * {step}"

    def _load(self) -> str:
        """Return the load of an input, which may be in the padding."""
        (sy, sx), (top, left, _, _) = self.size.stride, self.size.padding
        y = f"{self._begin('ty', self.tile.rows * sy)} + y"
        x = f"{self._begin('tx', self.tile.columns * sx)} + x"
        local, source = (
            "XL[y, x, 0, 0]",
            f"X[{self.at['n']}, {self.at['c']}, {y} - {top}, {x} - {left}, 0, 0]",
        )
        if not any(self.size.padding):
            return f"load_inp({local}, {source})"
        inside = (
            f"{top} <= {y} and {y} < {self.size.height + top} and "
            f"{left} <= {x} and {x} < {self.size.width + left}"
        )
        return f"load_inp_padded_least({local}, {source}, {inside})"

    def _combine(self, columns: dict[int, int]) -> Iterator[str]:
        """Yield the maxima along columns, for the columns of each phase, then the maxima along rows."""
        (sy, sx), (unshared_y, unshared_x) = self.size.stride, self._unshared()
        for x, width in columns.items():
            for step in range(self.size.kernel[0]):
                if step != unshared_y:
                    gathered = f"L{unshared_y}{x}[y, x, 0, 0]"
                    other = f"L{step % sy}{x}[y + {step // sy}, x, 0, 0]"
                    yield self._each(width, f"max({gathered}, {gathered}, {other})")
        for step in range(self.size.kernel[1]):
            if step != unshared_x:
                gathered, other = self._gathered(0, 0), self._gathered(step % sx - unshared_x, step // sx)
                yield self._each(self.tile.columns, f"max({gathered}, {gathered}, {other})")

    def _unshared(self) -> tuple[int, int]:
        """Return the row and the column of a window that no other window reads."""
        row, column = (
            max(0, kernel - stride) for kernel, stride in zip(self.size.kernel, self.size.stride, strict=True)
        )
        return row, column

    def _gathered(self, phase: int, step: int) -> str:
        """Return the accumulator of a column's maximum, at offsets from the unshared column of the window."""
        unshared_y, unshared_x = self._unshared()
        return f"L{unshared_y}{unshared_x + phase}[y, x + {step}, 0, 0]"

    def _each(self, width: int, call: str) -> str:
        return nest({"y": self.tile.rows, "x": width}, call)


def _read(size: Pooling, rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of input that a tile reads."""
    return (rows - 1) * size.stride[0] + size.kernel[0], (columns - 1) * size.stride[1] + size.kernel[1]


def _trips(size: Pooling, config: AcceleratorConfig, rows: int, columns: int) -> dict[str, int]:
    """Return the trips of the loops over tiles."""
    height, width = size.out_size
    trips = (
        blocks(size.batch, config.batch),
        blocks(size.channels, config.block_out),
        width // columns,
        height // rows,
    )
    return dict(zip(TILE_LOOPS, trips, strict=True))

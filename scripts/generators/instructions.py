"""Random instructions that stay within bounds, with the data each of them touches."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType, Parameter

UOP_TABLE = 4096  # byte address of the micro-ops that programs load
DATA = 8192  # byte address of the first data that programs load and store
GRANULE_BYTES = 64  # DRAM conflicts are kept in units of this
UOP_TABLE_ENTRIES = 512


@dataclass(frozen=True)
class Access:
    """What an instruction reads and writes: keys (memory, element), or ("DRAM", granule)."""

    reads: frozenset = field(default_factory=frozenset)
    writes: frozenset = field(default_factory=frozenset)


class InstructionMaker:
    """Make random instructions; keeps the contents of the micro-op memory, to stay within bounds.

    Args:
        config: the accelerator.
        rng: where the choices come from.
        image_bytes: DRAM that may be touched.
    """

    def __init__(self, config: AcceleratorConfig, rng: random.Random, image_bytes: int) -> None:
        self._config = config
        self._rng = rng
        self._image_bytes = image_bytes
        self.uop_table = [self._random_uop() for _ in range(UOP_TABLE_ENTRIES)]
        self._uops = [isa.MicroOp()] * config.depth(MemoryType.UOP)

    def make(self) -> tuple[isa.Instruction, Access]:
        """Return an instruction and what it touches."""
        makers = [self._load] * 4 + [self._uop_load] + [self._gemm] * 3 + [self._store] * 2
        makers += [self._alu] * 3 if self._config.alu_opcodes else []
        return self._rng.choice(makers)()

    def store_onto(self, byte: int) -> isa.Store:
        """Return a STORE within its scratchpad that writes DRAM byte `byte` in one of its rows."""
        rng, memory = self._rng, MemoryType.OUT
        depth, target = self._config.depth(memory), byte // self._config.element_bytes(memory)
        while True:
            x_size, y_size = max(1, self._size(depth)), max(1, self._size(depth))
            x_stride = rng.choice((x_size, x_size + rng.randrange(8), rng.randrange(x_size + 1)))
            base = target - rng.randrange(y_size) * x_stride - rng.randrange(x_size)
            if x_size * y_size <= depth and base >= 0:
                sram_base = rng.randrange(depth - x_size * y_size + 1)
                return isa.Store(
                    memory_type=memory,
                    sram_base=sram_base,
                    dram_base=base,
                    x_size=x_size,
                    y_size=y_size,
                    x_stride=x_stride,
                    **self._parameters(),
                )

    def _random_uop(self) -> isa.MicroOp:
        config, rng = self._config, self._rng
        acc, inp, wgt = (config.depth(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
        near = rng.randrange(acc)
        return isa.MicroOp(
            dst=rng.choice((rng.randrange(acc), rng.randrange(min(acc, 4)), near)),
            src=rng.randrange(min(acc, inp)),
            wgt=rng.randrange(wgt),
        )

    def _size(self, high: int) -> int:
        """Return a size up to `high`, mostly small."""
        return min(high, self._rng.choice((0, 1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33)))

    def _block(self, memory: MemoryType, first_byte: int, last_byte: int, padded: bool) -> dict:
        """Return the fields of a 2-D block that fits the scratchpad and the DRAM range."""
        rng, element = self._rng, self._config.element_bytes(memory)
        depth = self._config.depth(memory)
        while True:
            pads = {
                name: rng.choice((0, 0, 1, 2, 15)) if padded and rng.random() < 0.4 else 0
                for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
            }
            x_size, y_size = self._size(depth), self._size(depth)
            x_stride = rng.choice((x_size, x_size, x_size + rng.randrange(8), rng.randrange(x_size + 1)))
            rows, columns = (
                y_size + pads["y_pad_0"] + pads["y_pad_1"],
                x_size + pads["x_pad_0"] + pads["x_pad_1"],
            )
            span = (max(y_size, 1) - 1) * x_stride + x_size
            if rows * columns <= depth and span * element <= last_byte - first_byte:
                break
        base = rng.randrange(first_byte // element, (last_byte - span * element) // element + 1)
        return {
            "memory_type": memory,
            "sram_base": rng.randrange(depth - rows * columns + 1),
            "dram_base": base,
            "x_size": x_size,
            "y_size": y_size,
            "x_stride": x_stride,
            **pads,
        }

    def _load(self) -> tuple[isa.Instruction, Access]:
        memory = self._rng.choice((MemoryType.INP, MemoryType.WGT, MemoryType.ACC, MemoryType.ACC_8BIT))
        block = self._block(memory, DATA, self._image_bytes, padded=True)
        if self._config.has(Extension.PAD_MINIMUM):
            block["pad_minimum"] = self._rng.randrange(2)
        load = isa.Load(**block)
        target = MemoryType.ACC if memory is MemoryType.ACC_8BIT else memory
        return load, Access(reads=self._dram(load), writes=_elements(target, _written(load)))

    def _uop_load(self) -> tuple[isa.Instruction, Access]:
        load = isa.Load(
            **self._block(MemoryType.UOP, UOP_TABLE, UOP_TABLE + 4 * UOP_TABLE_ENTRIES, padded=True)
        )
        for index, source in zip(_written(load), _sources(load), strict=True):
            self._uops[index] = isa.MicroOp() if source is None else self.uop_table[source - UOP_TABLE // 4]
        return load, Access()

    def _store(self) -> tuple[isa.Instruction, Access]:
        store = isa.Store(
            **self._block(MemoryType.OUT, DATA, self._image_bytes, padded=False), **self._parameters()
        )
        parameters = (
            range(store.parameters_base, store.parameters_base + len(Parameter)) if store.parameters else ()
        )
        return store, Access(
            reads=_elements(MemoryType.ACC, (*_written(store), *parameters)), writes=self._dram(store)
        )

    def _parameters(self) -> dict:
        """Return whether and by what a STORE requantises."""
        sets = min(self._config.depth(MemoryType.ACC) // len(Parameter), isa.MOST_PARAMETER_SETS)
        return {"parameters": self._rng.randint(0, sets)} if self._config.has(Extension.REQUANTISE) else {}

    def _dram(self, transfer: isa.Load | isa.Store) -> frozenset:
        """Return the DRAM granules that a transfer touches."""
        element = self._config.element_bytes(transfer.memory_type)
        touched = set()
        for y in range(transfer.y_size if transfer.x_size else 0):
            start = (transfer.dram_base + y * transfer.x_stride) * element
            touched.update(
                range(start // GRANULE_BYTES, (start + transfer.x_size * element - 1) // GRANULE_BYTES + 1)
            )
        return frozenset(("DRAM", granule) for granule in touched)

    def _loop(self, depths: dict[str, int], uses: Iterable[str]) -> dict:
        """Return loop fields with which every used index stays within its memory; `depths` by micro-op
        field."""
        rng = self._rng
        while True:
            begin = rng.randrange(len(self._uops))
            fields = {
                "uop_begin": begin,
                "uop_end": rng.randint(begin, min(len(self._uops), begin + 6)),
                "iter_out": rng.choice((0, 1, 1, 2, 3, 5)),
                "iter_in": rng.choice((1, 1, 2, 4, 9)),
                "reset": int(rng.random() < 0.15),
            }
            for name, depth in depths.items():
                fields |= {
                    f"{name}_factor_{loop}": rng.choice((0, 0, 1, 1, 2, 3, rng.randrange(depth))) % depth
                    for loop in ("out", "in")
                }
            if all(
                max(_indices(name, fields, self._uops), default=0) < depth
                for name, depth in depths.items()
                if name in uses
            ):
                return fields

    def _gemm(self) -> tuple[isa.Instruction, Access]:
        depths = {
            "dst": self._config.depth(MemoryType.ACC),
            "src": self._config.depth(MemoryType.INP),
            "wgt": self._config.depth(MemoryType.WGT),
        }
        fields = self._loop(depths, depths)
        if self._config.has(Extension.OVERWRITE):
            fields["overwrite"] = self._rng.randrange(2)
        dst, src, wgt = (frozenset(_indices(name, fields, self._uops)) for name in depths)
        reads = (
            frozenset()
            if fields["reset"]
            else _elements(MemoryType.INP, src) | _elements(MemoryType.WGT, wgt)
        )
        acc = _elements(MemoryType.ACC, dst)
        return isa.Gemm(**fields), Access(reads=reads | acc, writes=acc)

    def _alu(self) -> tuple[isa.Instruction, Access]:
        depth = self._config.depth(MemoryType.ACC)
        immediate = self._rng.randrange(2)
        fields = self._loop({"dst": depth, "src": depth}, ("dst",) if immediate else ("dst", "src"))
        alu = isa.Alu(
            alu_opcode=self._rng.choice(self._config.alu_opcodes),
            use_imm=immediate,
            imm=self._immediate(),
            **fields,
        )
        acc = _elements(MemoryType.ACC, _indices("dst", fields, self._uops))
        source = frozenset() if immediate else _elements(MemoryType.ACC, _indices("src", fields, self._uops))
        return alu, Access(reads=acc | source, writes=acc)

    def _immediate(self) -> int:
        return self._rng.choice((0, 1, -1, 5, -7, 31, 32, -32, 40, 127, -128, 32767, -32768))


def _elements(memory: MemoryType, indices: Iterable[int]) -> frozenset:
    return frozenset((memory, index) for index in indices)


def _written(transfer: isa.Load | isa.Store) -> range:
    """Return the scratchpad elements of a transfer."""
    rows = transfer.y_size + transfer.y_pad_0 + transfer.y_pad_1
    count = rows * (transfer.x_size + transfer.x_pad_0 + transfer.x_pad_1) if transfer.x_size else 0
    return range(transfer.sram_base, transfer.sram_base + count)


def _sources(load: isa.Load) -> list[int | None]:
    """Return the DRAM element behind each written element; None for padding."""
    if not load.x_size:
        return []
    columns = load.x_pad_0 + load.x_size + load.x_pad_1
    rows = [[None] * columns] * load.y_pad_0
    for y in range(load.y_size):
        base = load.dram_base + y * load.x_stride
        rows.append([None] * load.x_pad_0 + list(range(base, base + load.x_size)) + [None] * load.x_pad_1)
    rows += [[None] * columns] * load.y_pad_1
    return [source for row in rows for source in row]


def _indices(name: str, fields: dict, uops: list[isa.MicroOp]) -> set[int]:
    """Return every value that index `name` ("dst", "src" or "wgt") takes in the loops of `fields`."""
    bases = {getattr(uop, name) for uop in uops[fields["uop_begin"] : fields["uop_end"]]}
    offsets = {
        i * fields[f"{name}_factor_out"] + j * fields[f"{name}_factor_in"]
        for i in range(fields["iter_out"])
        for j in range(fields["iter_in"])
    }
    return {base + offset for base in bases for offset in offsets}

"""Random instructions that stay within bounds, with the data each of them touches."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from vdla.hw.spec import encoding, footprint, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import chip_access, dram_access, operands, stepping_forms
from vdla.hw.spec.memories import loadable_in, scratchpad_of
from vdla.hw.spec.touched import ByteRows, accesses, elements, fields_of, named, rows_in_dram, total
from vdla.hw.spec.vocabulary import DRAM_BASE_BITS, Extension, MemoryType, Parameter, Statistic

UOP_TABLE = 4096  # byte address of the micro-ops that programs load
DATA = 8192  # byte address of the first data that programs load and store
GRANULE_BYTES = 64  # DRAM conflicts are kept in units of this
UOP_TABLE_ENTRIES = 512
FED_BACK = 0.6  # of the STOREs and NORMALISEs, where they can write INP
NORMALISED = 0.6  # of the NORMALISEs, where they can write outputs
PLACES_TRIED = 4  # for a LOAD that could run beside the instruction before it


@dataclass(frozen=True)
class Access:
    """What an instruction reads and writes: keys (memory, element), or ("DRAM", granule)."""

    reads: frozenset = field(default_factory=frozenset)
    writes: frozenset = field(default_factory=frozenset)


class InstructionMaker:
    """Make random instructions; keeps the contents of the micro-op memory, to stay within bounds, and the
    statistics that were gathered, to use no others.

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
        self._gathered: list[set[Statistic]] = [set() for _ in range(isa.NORMAL_ROWS)]
        self._worked: set[int] = set()  # halves of ACC in which the last GEMM, ALU or DEPTHWISE works

    def make(self) -> tuple[isa.Instruction, Access]:
        """Return an instruction and what it touches."""
        makers = [self._load] * 4 + [self._uop_load] + [self._gemm] * 3 + [self._store] * 2
        makers += [self._pad_register] if self._config.has(Extension.PAD_VALUE) else []
        makers += [self._gather] * 2 if self._config.has(Extension.GATHER) else []
        makers += [self._normalise] * 4 if self._config.has(Extension.NORMALISE) else []
        makers += [self._alu] * 3 if self._config.alu_opcodes else []
        makers += [self._depthwise] * 3 if self._config.has(Extension.DEPTHWISE) else []
        return self._rng.choice(makers)()

    @property
    def uop_bytes(self) -> slice:
        """The bytes of DRAM that hold the micro-ops that programs load."""
        size = self._config.uop_bits // 8
        return slice(UOP_TABLE, UOP_TABLE + size * len(self.uop_table))

    def load_all(self, memory: MemoryType) -> tuple[isa.Instruction, Access]:
        """Return a LOAD that writes every element of a scratchpad, and what it touches. It reads the first
        elements of the data, or of the micro-ops, again and again."""
        depth, first = self._config.depth(memory), UOP_TABLE if memory is MemoryType.UOP else DATA
        columns = max(size for size in range(1, 33) if depth % size == 0)
        load = isa.Load(
            memory_type=memory,
            dram_base=-(-first // self._config.element_bytes(memory)),
            x_size=columns,
            y_size=depth // columns,
        )
        if memory is MemoryType.UOP:
            self._fill_uops(load)
        return self._touching(load)

    def store_onto(self, byte: int) -> isa.Store | isa.Normalise:
        """Return a STORE or NORMALISE within its scratchpad that writes DRAM byte `byte` in one of its
        rows."""
        rng, memory = self._rng, MemoryType.OUT
        depth, target = self._config.depth(memory), byte // self._config.element_bytes(memory)
        while True:
            x_size, y_size = max(1, self._size(depth)), max(1, self._size(depth))
            x_stride = rng.choice((x_size, x_size + rng.randrange(8), rng.randrange(x_size + 1)))
            base = target - rng.randrange(y_size) * x_stride - rng.randrange(x_size)
            if x_size * y_size <= depth and base >= 0:
                break
        block = {
            "memory_type": memory,
            "sram_base": rng.randrange(depth - x_size * y_size + 1),
            "dram_base": base,
            "x_size": x_size,
            "y_size": y_size,
            "x_stride": x_stride,
        }
        if self._config.has(Extension.NORMALISE) and rng.random() < NORMALISED:
            return isa.Normalise(**block, normal=1, statistic=rng.choice(list(Statistic)))
        return isa.Store(**block, **self._parameters(x_size * y_size))

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

    def _block(
        self, memory: MemoryType, first_byte: int, last_byte: int, padded: bool, halvings: int = 0
    ) -> dict:
        """Return the fields of a 2-D block that fits the scratchpad and the DRAM range."""
        rng, element = self._rng, self._config.element_bytes(memory, halvings)
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
        loadable = loadable_in(self._config)
        memory = self._rng.choice([memory for memory in loadable if memory is not MemoryType.UOP])
        halvings = self._halvings(memory)
        for _ in range(PLACES_TRIED):
            block = self._block(memory, DATA, self._image_bytes, padded=True, halvings=halvings)
            load, access = self._touching(isa.Load(**block, **self._pad_flags(), halvings=halvings))
            if not self._halves(access) & self._worked:
                return self._beside(load), access
        return load, access

    def _halvings(self, memory: MemoryType) -> int:
        """Return random halvings of a LOAD of `memory`; they have an effect on weights alone."""
        if not self._config.has(Extension.NARROW_WEIGHTS):
            return 0
        if memory is MemoryType.WGT:
            return self._rng.choice(self._config.halvings(memory))
        return self._rng.randrange(1 << isa.HALVINGS_BITS)

    def _beside(self, load: isa.Load) -> isa.Load:
        """Promise at random that `load` writes no half of ACC in which the instruction before works."""
        return replace(load, beside=int(self._config.has(Extension.ACC_HALVES) and self._rng.random() < 0.8))

    def _halves(self, access: Access) -> set[int]:
        """Return the halves of ACC, 0 and 1, of which an instruction touches elements."""
        depth = self._config.depth(MemoryType.ACC)
        return {
            2 * element // depth
            for memory, element in access.reads | access.writes
            if memory is MemoryType.ACC
        }

    def _gather(self) -> tuple[isa.Instruction, Access]:
        """Return a GATHER within its scratchpad and the DRAM range."""
        rng, size = self._rng, self._config.element_bytes(MemoryType.INP)
        depth = self._config.depth(MemoryType.INP)
        while True:
            pads = {name: rng.choice((0, 0, 0, 1, 2, 15)) for name in ("y_pad_0", "y_pad_1")}
            x_size, y_size = self._size(depth), self._size(depth)
            step = rng.choice((rng.randrange(4), rng.randrange(2 * size), rng.randrange(256), size))
            x_stride = rng.randrange(rng.choice((1, 8, 200, 2000)))
            step, x_stride = min(step, isa.MOST_GATHER_STEP), min(x_stride, isa.LONGEST_ROW)
            span = (max(y_size, 1) - 1) * x_stride + max(x_size - 1, 0) * step + size
            rows = y_size + sum(pads.values())
            if rows * x_size <= depth and span <= self._image_bytes - DATA:
                break
        gather = isa.Gather(
            memory_type=MemoryType.INP,
            sram_base=rng.randrange(depth - rows * x_size + 1),
            dram_base=rng.randrange(DATA, self._image_bytes - span + 1),
            x_size=x_size,
            y_size=y_size,
            x_stride=x_stride,
            step=step,
            **pads,
            **self._pad_flags(),
        )
        return self._touching(gather)

    def _pad_flags(self) -> dict:
        """Return with what a LOAD pads."""
        flags = (Extension.PAD_MINIMUM, "pad_minimum"), (Extension.PAD_VALUE, "pad_value")
        return {name: self._rng.randrange(2) for extension, name in flags if self._config.has(extension)}

    def _pad_register(self) -> tuple[isa.Instruction, Access]:
        """Return a LOAD that writes a pad register, whatever its other fields say."""
        rng = self._rng
        sizes = {name: rng.choice((0, 1, 15)) for name in ("y_size", "y_pad_0", "y_pad_1", "x_pad_0")}
        memory = rng.choice(loadable_in(self._config))
        load = isa.Load(
            memory_type=memory,
            halvings=self._halvings(memory),
            sram_base=rng.randrange(1 << self._config.sram_base_bits),
            dram_base=rng.getrandbits(DRAM_BASE_BITS),
            **sizes | self._pad_flags() | {"pad_value": 1},
        )
        return load, Access()

    def _uop_load(self) -> tuple[isa.Instruction, Access]:
        block = self._block(MemoryType.UOP, UOP_TABLE, UOP_TABLE + 4 * UOP_TABLE_ENTRIES, padded=True)
        load = isa.Load(**block, **self._pad_flags())
        self._fill_uops(load)
        return self._touching(load)

    def _fill_uops(self, load: isa.Load) -> None:
        """Do to the micro-op memory what a LOAD does."""
        fields, chip, dram = fields_of(load), chip_access(isa.Load), dram_access(isa.Load)
        touched = list(accesses(load))
        for index in elements(chip, fields) if chip in touched else ():
            self._uops[index] = isa.MicroOp()
        if dram in touched:
            for index, source in zip(
                elements(chip, fields, padding=False), elements(dram, fields), strict=True
            ):
                self._uops[index] = self.uop_table[source - UOP_TABLE // 4]

    def _touching(self, instruction: isa.Instruction) -> tuple[isa.Instruction, Access]:
        """Return an instruction with what it touches."""
        fields, reads, writes, uops = fields_of(instruction), set(), set(), []
        for access in accesses(instruction):
            bases = [getattr(uop, access.uop_field) for uop in uops] if access.uop_field else (0,)
            memory = MemoryType(named(access, fields))
            if access.in_dram:
                element = self._config.element_bytes(memory, fields("halvings"))
                keys = _granules(rows_in_dram(access, fields, element))
            else:
                touched = set(elements(access, fields, bases))
                uops = [self._uops[index] for index in sorted(touched)] if memory is MemoryType.UOP else uops
                keys = _on_chip(memory, touched)
            if access.reads:
                reads |= keys
            if access.writes:
                writes |= keys
        access = Access(frozenset(reads), frozenset(writes))
        if type(instruction) in stepping_forms():
            self._worked = self._halves(access)
        return instruction, access

    def _store(self) -> tuple[isa.Instruction, Access]:
        block = self._written_block()
        return self._touching(isa.Store(**block, **self._parameters(block["x_size"] * block["y_size"])))

    def _written_block(self) -> dict:
        """Return the fields of a 2-D block of accumulators whose outputs fit DRAM, or INP."""
        if self._config.has(Extension.FEEDBACK) and self._rng.random() < FED_BACK:
            return self._block_of_inputs()
        block = self._block(MemoryType.OUT, DATA, self._image_bytes, padded=False)
        return {name: value for name, value in block.items() if "pad" not in name}

    def _block_of_inputs(self) -> dict:
        """Return the fields of a 2-D block of accumulators whose outputs fit INP."""
        rng, inp, acc = self._rng, self._config.depth(MemoryType.INP), self._config.depth(MemoryType.OUT)
        while True:
            x_size, y_size = self._size(inp), self._size(acc)
            x_stride = rng.choice((x_size, x_size, x_size + rng.randrange(8), rng.randrange(x_size + 1)))
            span = (max(y_size, 1) - 1) * x_stride + x_size
            if x_size * y_size <= acc and span <= inp:
                break
        return {
            "memory_type": MemoryType.INP,
            "sram_base": rng.randrange(acc - x_size * y_size + 1),
            "dram_base": rng.randrange(inp - span + 1),
            "x_size": x_size,
            "y_size": y_size,
            "x_stride": x_stride,
        }

    def _normalise(self) -> tuple[isa.Instruction, Access]:
        """Return a NORMALISE that gathers a statistic, or writes outputs if it may use one."""
        rng, block = self._rng, self._written_block()
        rows = range(min(block["x_size"] * block["y_size"], isa.NORMAL_ROWS))
        known = set(Statistic).intersection(*(self._gathered[row] for row in rows))
        fields = {"normal": 0, "anew": rng.randrange(2)}
        if known and rng.random() < NORMALISED:
            fields |= {"normal": rng.randint(1, self._sets), "statistic": rng.choice(sorted(known))}
        else:
            powers = [Statistic.POWERS] * 2 if Statistic.GREATEST in known else []
            fields["statistic"] = rng.choice([Statistic.GREATEST, Statistic.MOMENTS, *powers])
            fields["anew"] |= fields["statistic"] not in known
            for row in rows:
                self._gathered[row].add(fields["statistic"])
        tables = min(self._config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS - 1, isa.MOST_TABLES)
        fields["parameters"] = rng.choice((0, rng.randint(1, self._sets), rng.randint(1, self._sets)))
        fields["table"] = rng.choice((0, rng.randint(1, tables)))
        return self._touching(isa.Normalise(**block, **fields))

    @property
    def _sets(self) -> int:
        """The sets of parameters that ACC has room for and an instruction can name."""
        return min(self._config.depth(MemoryType.ACC) // len(Parameter), isa.MOST_PARAMETER_SETS)

    def _parameters(self, elements: int) -> dict:
        """Return whether and by what a STORE of `elements` requantises, looks up and adds."""
        config, rng, fields = self._config, self._rng, {}
        if config.has(Extension.REQUANTISE):
            fields["parameters"] = rng.randint(0, self._sets)
        if config.has(Extension.TABLE):
            tables = config.depth(MemoryType.TABLE) // isa.TABLE_ELEMENTS
            fields["table"] = rng.choice((0, rng.randint(0, min(tables, isa.MOST_TABLES))))
        if config.has(Extension.RESIDUAL):
            most = min(config.depth(MemoryType.RES) - elements + 1, (1 << isa.RESIDUAL_BITS) - 1)
            if most > 0:
                fields["residual"] = rng.choice((0, rng.randint(0, most)))
        return fields

    def _loop(self, form: type[isa.Instruction], *flags: str) -> dict:
        """Return loop fields with which every index that is used where `flags` are set stays within its
        memory."""
        rng = self._rng
        depths = {access.uop_field: self._config.depth(access.memory) for access in operands(form)}
        field_names, most = isa.field_names(form), encoding.field_of(form, "iter_in", self._config).high
        while True:
            begin = rng.randrange(len(self._uops))
            fields = {
                "uop_begin": begin,
                "uop_end": rng.randint(begin, min(len(self._uops), begin + 6)),
                "iter_out": rng.choice((0, 1, 1, 2, 3, 5)),
                "iter_in": min(rng.choice((1, 1, 2, 4, 9)), most),
                "reset": int(rng.random() < 0.15),
                "stride_2": rng.randrange(2) if "stride_2" in field_names else 0,
                **self._window(),
            }
            for name, depth in depths.items():
                fields |= {
                    f"{name}_factor_{loop}": rng.choice((0, 0, 1, 1, 2, 3, rng.randrange(depth))) % depth
                    for loop in ("out", "in")
                }
            fields = {name: value for name, value in fields.items() if name in field_names}
            uops = self._uops[begin : fields["uop_end"]]
            if all(self._stays_inside(access, fields, uops) for access in operands(form, *flags)):
                return fields

    def _window(self) -> dict[str, int]:
        """Return fields of the window of a DEPTHWISE."""
        rng, fields = self._rng, {"more_rows": 0, "wide": 0, "row_step": 0}
        if self._config.has(Extension.DEPTHWISE_ROWS):
            steps = encoding.field_of(isa.Depthwise, "row_step", self._config).high
            fields["more_rows"] = rng.choice((0, 1, 2, 3, min(3, self._config.window.rows - 1)))
            fields["wide"] = rng.randrange(2)
            fields["row_step"] = min(steps, rng.choice((0, 1, 1, 2, 3, rng.randint(0, steps))))
        return fields

    def _stays_inside(self, access: footprint.Access, fields: dict, uops: list[isa.MicroOp]) -> bool:
        if not all(total(text, fields.__getitem__) > 0 for text in access.where):
            return True
        bases = [getattr(uop, access.uop_field) for uop in uops]
        greatest = max(elements(access, fields.__getitem__, bases), default=0)
        return greatest < self._config.depth(access.memory)

    def _gemm(self) -> tuple[isa.Instruction, Access]:
        fields = self._loop(isa.Gemm)
        if self._config.has(Extension.OVERWRITE):
            fields["overwrite"] = self._rng.randrange(2)
        return self._touching(isa.Gemm(**fields))

    def _depthwise(self) -> tuple[isa.Instruction, Access]:
        fields = self._loop(isa.Depthwise)
        if self._config.has(Extension.OVERWRITE):
            fields["overwrite"] = self._rng.randrange(2)
        return self._touching(isa.Depthwise(**fields))

    def _alu(self) -> tuple[isa.Instruction, Access]:
        immediate = self._rng.randrange(2)
        fields = self._loop(isa.Alu, *["use_imm"] * immediate)
        alu = isa.Alu(
            alu_opcode=self._rng.choice(self._config.alu_opcodes),
            use_imm=immediate,
            imm=self._immediate(),
            **fields,
        )
        return self._touching(alu)

    def _immediate(self) -> int:
        return self._rng.choice((0, 1, -1, 5, -7, 31, 32, -32, 40, 127, -128, 32767, -32768))


def _granules(rows: ByteRows) -> set:
    """Return the keys of rows of bytes in DRAM."""
    begins = (rows.begin + y * rows.stride for y in range(rows.count))
    return {
        ("DRAM", granule)
        for begin in begins
        for granule in range(begin // GRANULE_BYTES, (begin + rows.width - 1) // GRANULE_BYTES + 1)
    }


def _on_chip(memory: MemoryType, indices: Iterable[int]) -> set:
    return {(scratchpad_of(memory), index) for index in indices}

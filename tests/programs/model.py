"""The instruction set in plain Python, one value at a time: slow, obvious, and shared with no device."""

from math import prod

from vdla.hw.spec import codec, isa, numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.normalisation import RowStatistics, begun_anew, gathered, normal_operands, normalised
from vdla.hw.spec.vocabulary import Extension, MemoryType

INP, WGT, ACC, OUT, UOP, ACC_8BIT = (
    MemoryType.INP,
    MemoryType.WGT,
    MemoryType.ACC,
    MemoryType.OUT,
    MemoryType.UOP,
    MemoryType.ACC_8BIT,
)
TABLE, RES = MemoryType.TABLE, MemoryType.RES


class Model:
    """Executes instructions in program order on `dram`, a bytearray."""

    def __init__(self, config: AcceleratorConfig, dram: bytearray) -> None:
        self.config, self.dram = config, dram
        self.bits = {
            INP: config.inp_bits,
            WGT: config.wgt_bits,
            ACC: config.acc_bits,
            ACC_8BIT: config.out_bits,
            OUT: config.out_bits,
            UOP: 32,
            TABLE: 8,
            RES: config.out_bits,
        }
        self.pads = {
            memory: [
                [0] * (config.element_bits(memory) // self.bits[memory]) for _ in range(config.depth(memory))
            ]
            for memory in (INP, WGT, ACC, UOP, TABLE, RES)
        }

        self.pad_registers = {"load": 0, "compute": 0}
        self.rows = [RowStatistics()] * 256

    def run(self, instructions) -> bytearray:
        for instruction in instructions:
            match instruction:
                case isa.Load():
                    self.load(instruction)
                case isa.Gather():
                    self.gather(instruction)
                case isa.Store():
                    self.store(instruction)
                case isa.Normalise():
                    self.normalise(instruction)
                case isa.Gemm() | isa.Alu():
                    self.loop(instruction)
                case isa.Depthwise():
                    self.depthwise(instruction)
        return self.dram

    def load(self, load: isa.Load) -> None:
        memory = load.memory_type
        unit = "load" if memory in (INP, WGT) else "compute"
        if load.pad_value and not load.x_size:
            self.pad_registers[unit] = load.sram_base
        target = self.pads[ACC if memory is ACC_8BIT else memory]
        pad, position = [self.padding(load, self.pad_registers[unit])] * len(target[0]), load.sram_base
        for y in range(load.y_pad_0 + load.y_size + load.y_pad_1 if load.x_size else 0):
            for x in range(load.x_pad_0 + load.x_size + load.x_pad_1):
                row, column = y - load.y_pad_0, x - load.x_pad_0
                inside = 0 <= row < load.y_size and 0 <= column < load.x_size
                target[position] = (
                    self.read(load, load.dram_base + row * load.x_stride + column) if inside else list(pad)
                )
                position += 1

    def gather(self, gather: isa.Gather) -> None:
        padding = self.padding(gather, self.pad_registers["load"])
        pad, position, size = (
            [padding] * len(self.pads[INP][0]),
            gather.sram_base,
            self.config.element_bytes(INP),
        )
        for row in range(
            -gather.y_pad_0, gather.y_size + gather.y_pad_1 if gather.x_size else -gather.y_pad_0
        ):
            inside, begin = 0 <= row < gather.y_size, gather.dram_base + row * gather.x_stride
            read = self.dram[begin : begin + (gather.x_size - 1) * gather.step + size] if inside else b""
            for first in (column * gather.step for column in range(gather.x_size)):
                self.pads[INP][position] = (
                    self.values(self.bits[INP], read[first : first + size]) if inside else list(pad)
                )
                position += 1

    def padding(self, load: isa.Load | isa.Gather, register: int) -> int:
        if load.memory_type is UOP:
            return 0
        if load.pad_minimum:
            return -(1 << self.dram_bits(load) - 1)
        signed_byte = (register + 128) % 256 - 128
        return numerics.wrap(signed_byte, self.dram_bits(load)) if load.pad_value else 0

    def dram_bits(self, load: isa.Load | isa.Gather) -> int:
        """Bits of a value in DRAM."""
        bits = self.bits[load.memory_type]
        return bits // 2**load.halvings if load.memory_type is WGT else bits

    def read(self, load: isa.Load, element: int) -> list[int]:
        bits = self.dram_bits(load)
        size = len(self.pads[ACC if load.memory_type is ACC_8BIT else load.memory_type][0]) * bits // 8
        return self.values(bits, self.dram[element * size : (element + 1) * size])

    def values(self, bits: int, element: bytes) -> list[int]:
        word = int.from_bytes(element, "little")
        return [numerics.wrap(word >> shift, bits) for shift in range(0, 8 * len(element), bits)]

    def store(self, store: isa.Store) -> None:
        for y in range(store.y_size):
            for x in range(store.x_size):
                values = self.pads[ACC][store.sram_base + y * store.x_size + x]
                if store.parameters:
                    values = self.requantised(store, values, y * store.x_size + x)
                self.write(store, store.dram_base + y * store.x_stride + x, values)

    def write(self, store: isa.Store | isa.Normalise, place: int, values: list[int]) -> None:
        """Write the outputs of an element to an element of INP or of DRAM."""
        size, bits = self.config.element_bytes(OUT), self.config.out_bits
        if store.memory_type is INP:
            self.pads[INP][place] = [numerics.wrap(value, bits) for value in values]
            return
        word = sum((value & (1 << bits) - 1) << bits * lane for lane, value in enumerate(values))
        self.dram[place * size : (place + 1) * size] = word.to_bytes(size, "little")

    def normalise(self, it: isa.Normalise) -> None:
        table = [
            low & 255 | (high & 255) << 8
            for element in self.pads[TABLE][64 * (it.table - 1) : 64 * (it.table + 1)]
            for low, high in (element[:2], element[2:])
        ]
        lanes = range(self.config.block_out)
        clips = self.pads[ACC][4 * it.parameters - 1] if it.parameters else [0 for _ in lanes]
        words = self.pads[ACC][4 * (it.normal - 1) : 4 * it.normal] if it.normal else []
        for number in range(it.y_size * it.x_size):
            values, row = self.pads[ACC][it.sram_base + number], number % 256
            if it.parameters:
                values = self.scaled(it.parameters, values)
            values = [numerics.wrap(value, 8) for value in values]
            if it.normal:
                operands = [normal_operands([word[lane] for word in words]) for lane in lanes]
                operands = [operands[0]._replace(addend=own.addend, factor=own.factor) for own in operands]
                outputs = [
                    normalised(it.statistic, self.rows[row], value, table if it.table else None, own)
                    for value, own in zip(values, operands, strict=True)
                ]
                y, x = divmod(number, it.x_size)
                self.write(it, it.dram_base + y * it.x_stride + x, outputs)
                continue
            chosen = [value for value, clip in zip(values, clips, strict=True) if not clip >> 16 & 1]
            before = begun_anew(it.statistic, self.rows[row]) if it.anew else self.rows[row]
            self.rows[row] = gathered(it.statistic, before, chosen, table if it.table else None)

    def scaled(self, number: int, values: list[int]) -> list[int]:
        """Requantise values by a set of parameters."""
        kept = self.pads[ACC][4 * (number - 1) : 4 * number]
        return [
            numerics.requantise(value, parameters, self.config.acc_bits)
            for value, *parameters in zip(values, *kept, strict=True)
        ]

    def requantised(self, store: isa.Store, values: list[int], number: int) -> list[int]:
        """What becomes of the values of element `number` of a STORE with parameters."""
        values = self.scaled(store.parameters, values)
        if store.table:
            entries = [
                entry
                for element in self.pads[TABLE][64 * (store.table - 1) : 64 * store.table]
                for entry in element
            ]
            values = [entries[value if value >= 0 else 256 + value] for value in values]
        if store.residual:
            scalars = [element[0] for element in self.pads[ACC][:4]]
            residuals = self.pads[RES][store.residual - 1 + number]
            values = [
                numerics.add_residual(value, other, scalars)
                for value, other in zip(values, residuals, strict=True)
            ]
        return values

    def loop(self, work: isa.Gemm | isa.Alu) -> None:
        step = self.gemm if isinstance(work, isa.Gemm) else self.alu
        for i in range(work.iter_out):
            for j in range(work.iter_in):
                for index in range(work.uop_begin, work.uop_end):
                    uop = codec.decode_uop(self.pads[UOP][index][0] & 0xFFFFFFFF, self.config)
                    at = {
                        name: getattr(uop, name)
                        + i * getattr(work, f"{name}_factor_out", 0)
                        + j * getattr(work, f"{name}_factor_in", 0)
                        for name in ("dst", "src", "wgt")
                    }
                    step(work, at)

    def gemm(self, gemm: isa.Gemm, at: dict[str, int]) -> None:
        config, acc = self.config, self.pads[ACC][at["dst"]]
        if gemm.reset:
            acc[:] = [0] * len(acc)
            return
        inp, wgt = self.pads[INP][at["src"]], self.pads[WGT][at["wgt"]]
        for b in range(config.batch):
            for o in range(config.block_out):
                dot = sum(
                    inp[b * config.block_in + k] * wgt[o * config.block_in + k]
                    for k in range(config.block_in)
                )
                before = 0 if gemm.overwrite else acc[b * config.block_out + o]
                acc[b * config.block_out + o] = numerics.wrap(before + dot, config.acc_bits)

    def depthwise(self, work: isa.Depthwise) -> None:
        for i in range(work.iter_out):
            for index in range(work.uop_begin, work.uop_end if work.iter_in else 0):
                uop = codec.decode_uop(self.pads[UOP][index][0] & 0xFFFFFFFF, self.config)
                apart, columns = 2 * work.row_step + 1, 5 if work.wide else 3
                for j in range(work.iter_in):
                    column = uop.src + i * work.src_factor_out + (j << work.stride_2) * work.src_factor_in
                    window = [
                        [self.pads[INP][column + r * apart + t * work.src_factor_in] for t in range(columns)]
                        for r in range(1 + work.more_rows)
                    ]
                    acc = self.pads[ACC][uop.dst + i * work.dst_factor_out + j * work.dst_factor_in]
                    self.slide(window, self.pads[WGT][uop.wgt + i * work.wgt_factor_out], acc, work.overwrite)

    def slide(self, window: list, wgt: list, acc: list, overwrite: int) -> None:
        block, pads = self.config.block_in, []
        shared, rows, columns = self.shape_of_windows()
        for row in [*window, *[[]] * rows][:rows]:
            element = [0] * (block * self.config.batch)
            pads.append([*[element] * columns, *row][-columns:] if row else [element] * columns)
        for b in range(self.config.batch):
            for o in range(block):
                weights, first = iter(wgt[o * block : (o + 1) * block]), b * block + o - o % shared
                dot = sum(
                    pads[r][t][first + h] * next(weights)
                    for r in range(rows)
                    for h in range(shared)
                    for t in range(columns)
                )
                before = 0 if overwrite else acc[b * block + o]
                acc[b * block + o] = numerics.wrap(before + dot, self.config.acc_bits)

    def shape_of_windows(self) -> tuple[int, int, int]:
        """Return the columns that share inputs, and the rows and columns of a window that count."""
        if not self.config.has(Extension.DEPTHWISE_ROWS):
            return 2, 1, 3
        shared = 2 if self.config.packed else 1
        shapes = ((4, 5), (3, 5), (2, 3))
        return shared, *next(shape for shape in shapes if prod(shape) * shared <= self.config.block_in)

    def alu(self, alu: isa.Alu, at: dict[str, int]) -> None:
        acc = self.pads[ACC][at["dst"]]
        right = [alu.imm] * len(acc) if alu.use_imm else list(self.pads[ACC][at["src"]])
        acc[:] = [
            numerics.alu(alu.alu_opcode, a, b, self.config.acc_bits) for a, b in zip(acc, right, strict=True)
        ]

"""Following a stream element by element: every access is held against the last ones of the other units, and against what is there."""

from vdla.hw.spec import isa
from vdla.hw.spec.units import Unit
from vdla.hw.spec.vocabulary import MemoryType, Parameter
from vdla.sim.compiled import part, revision, whole

CONFLICT, EMPTY, BEYOND = 1, 2, 3  # kinds of findings
READS, WRITES = 0, 1
DRAM = 7  # stands for a memory type in findings
PAGE_SHIFT = 12
LOAD, STORE, GEMM = (int(form.opcode) for form in (isa.Load, isa.Store, isa.Gemm))
UOP, WGT, INP, ACC = (int(memory) for memory in (MemoryType.UOP, MemoryType.WGT, MemoryType.INP, MemoryType.ACC))
UNITS, PARAMETERS = len(Unit), len(Parameter)


@part
def report(findings, state, kind, index, other, memory, element):
    """Write a finding down, unless there is no more room."""
    if state[0] < findings.shape[0]:
        findings[state[0], 0], findings[state[0], 1], findings[state[0], 2] = kind, index, other
        findings[state[0], 3], findings[state[0], 4] = memory, element
        state[0] += 1


@part
def touch(shadow, place, unit, index, known, writes, needs, findings, state, memory, element):
    """Account for one access; `needs`: it must find something there."""
    if needs and not shadow.filled[place]:
        report(findings, state, EMPTY, index, -1, memory, element)
        shadow.filled[place] = True  # say so once
    for other in range(UNITS):
        if other != unit:
            last = shadow.written[place, other]
            if writes:
                last = max(last, shadow.read[place, other])
            if last > known[index, other]:
                report(findings, state, CONFLICT, index, last, memory, element)
    if writes:
        shadow.written[place, unit] = index
        shadow.filled[place] = True
    else:
        shadow.read[place, unit] = index


@part
def touch_dram(shadow, address, size, unit, index, known, writes, findings, state, dram_bytes):
    """Account for `size` bytes of DRAM; return whether they exist."""
    if address < 0 or address + size > dram_bytes:
        report(findings, state, BEYOND, index, -1, DRAM, address)
        return False
    for byte in range(address, address + size, shadow.granule):
        page = shadow.pages[byte >> PAGE_SHIFT]
        place = shadow.dram_first + ((page << PAGE_SHIFT) + (byte & ((1 << PAGE_SHIFT) - 1))) // shadow.granule
        touch(shadow, place, unit, index, known, writes, False, findings, state, DRAM, byte)
    return True


@part
def follow_load(item, index, unit, shadow, known, uops, words, findings, state, dram_bytes):
    """Follow a LOAD: padding and rows into a memory, micro-ops into the model of theirs."""
    memory = item.memory_type
    if item.x_size == 0:
        return
    rows, columns = item.y_pad_0 + item.y_size + item.y_pad_1, item.x_pad_0 + item.x_size + item.x_pad_1
    if item.sram_base + rows * columns > shadow.depth[memory]:
        report(findings, state, BEYOND, index, -1, memory, item.sram_base + rows * columns - 1)
        return
    for y in range(rows):
        inside = item.y_pad_0 <= y < item.y_pad_0 + item.y_size
        start = (item.dram_base + (y - item.y_pad_0) * item.x_stride) * item.element_bytes
        if inside and not touch_dram(shadow, start, item.x_size * item.element_bytes, unit, index, known, False, findings, state, dram_bytes):
            return
        for x in range(columns):
            element = item.sram_base + y * columns + x
            touch(shadow, shadow.first[memory] + element, unit, index, known, True, False, findings, state, memory, element)
            if memory == UOP:
                read = inside and item.x_pad_0 <= x < item.x_pad_0 + item.x_size
                uops[element] = words[start // 4 + x - item.x_pad_0] if read else 0


@part
def touch_operand(shadow, memory, element, unit, index, known, writes, needs, findings, state):
    """Account for one operand of a step; return whether it exists."""
    if element >= shadow.depth[memory]:
        report(findings, state, BEYOND, index, -1, memory, element)
        return False
    touch(shadow, shadow.first[memory] + element, unit, index, known, writes, needs, findings, state, memory, element)
    return True


@part
def follow_store(item, index, unit, shadow, known, findings, state, dram_bytes):
    """Follow a STORE: parameters, and accumulators to rows."""
    if item.x_size == 0:
        return
    if item.sram_base + item.y_size * item.x_size > shadow.depth[ACC]:
        report(findings, state, BEYOND, index, -1, ACC, item.sram_base + item.y_size * item.x_size - 1)
        return
    for row in range(PARAMETERS if item.parameters and item.y_size else 0):
        if not touch_operand(shadow, ACC, (item.parameters - 1) * PARAMETERS + row, unit, index, known, False, True, findings, state):
            return
    for y in range(item.y_size):
        start = (item.dram_base + y * item.x_stride) * item.element_bytes
        if not touch_dram(shadow, start, item.x_size * item.element_bytes, unit, index, known, True, findings, state, dram_bytes):
            return
        for x in range(item.x_size):
            element = item.sram_base + y * item.x_size + x
            touch(shadow, shadow.first[ACC] + element, unit, index, known, False, True, findings, state, ACC, element)


@part
def follow_steps(item, index, unit, shadow, known, uops, widths, findings, state):
    """Follow a GEMM or ALU instruction, step by step; it stops at the first that reaches too far."""
    multiplies = item.opcode == GEMM
    begins = multiplies and (item.reset or item.overwrite)
    for i in range(item.iter_out):
        for j in range(item.iter_in):
            for position in range(item.uop_begin, item.uop_end):
                if position >= shadow.depth[UOP]:
                    report(findings, state, BEYOND, index, -1, UOP, position)
                    return
                touch(shadow, shadow.first[UOP] + position, unit, index, known, False, True, findings, state, UOP, position)
                word = uops[position]
                dst = (word & ((1 << widths[0]) - 1)) + i * item.dst_factor_out + j * item.dst_factor_in
                src = (word >> widths[0] & ((1 << widths[1]) - 1)) + i * item.src_factor_out + j * item.src_factor_in
                wgt = (word >> (widths[0] + widths[1]) & ((1 << widths[2]) - 1)) + i * item.wgt_factor_out + j * item.wgt_factor_in
                fine = True
                if multiplies and not item.reset:
                    fine = touch_operand(shadow, INP, src, unit, index, known, False, True, findings, state)
                    fine &= touch_operand(shadow, WGT, wgt, unit, index, known, False, True, findings, state)
                elif not multiplies and not item.use_imm:
                    fine = touch_operand(shadow, ACC, src, unit, index, known, False, True, findings, state)
                if not fine or not touch_operand(shadow, ACC, dst, unit, index, known, True, not begins, findings, state):
                    return


def _compile(enclosed: int):
    @whole
    def follow(order, columns, units, shadow, known, uops, words, widths, findings, state, dram_bytes):
        """Follow the instructions of `order`; `findings` and their number in `state` tell what is wrong."""
        for place in range(order.size):
            index = order[place]
            item, unit = columns[index], units[index]
            if item.opcode == LOAD:
                follow_load(item, index, unit, shadow, known, uops, words, findings, state, dram_bytes)
            elif item.opcode == STORE:
                follow_store(item, index, unit, shadow, known, findings, state, dram_bytes)
            else:
                follow_steps(item, index, unit, shadow, known, uops, widths, findings, state)
        return enclosed
    return follow


follow = _compile(revision())

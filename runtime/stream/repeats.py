"""LOADs of what is on chip already: each is left out, as its elements still lie where it would write them.

The steps of an unrolled recurrence multiply by the same weights, and its gates read the same state. A LOAD is
repeated if every element that it copies was copied to the same place before, and if neither the place nor the
tensor was written since.
"""

import numpy as np

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.record import FIELDS, NO_TENSOR, Edit, Record
from vdla.sim.compiled import whole
from vdla.sim.records import Grid, IntArray, Ints

OPERANDS = (MemoryType.INP, MemoryType.WGT)  # of products
SIZES = tuple(map(FIELDS[isa.Load].index, ("dram_base", "y_size", "x_size", "x_stride", "halvings")))
PADS = tuple(map(FIELDS[isa.Load].index, ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")))
UNKNOWN = -1  # as a content


def without_repeats(record: Record, config: AcceleratorConfig) -> Edit | None:
    """Return the edit that leaves out repeated LOADs of inputs and weights; None if no LOAD is repeated."""
    copies = _copies(record)
    begin, end = _written(record, config)
    depth = sum(map(config.depth, OPERANDS))
    written = record.written()
    versions = np.zeros(1 + int(record.tensors().max(initial=0)), np.int64)
    repeated = np.zeros(len(record), np.int64)
    tensors, held, elements, halvings = np.full((4, depth), UNKNOWN)
    _search(copies, begin, end, written, versions, tensors, held, elements, halvings, repeated)
    dropped = np.flatnonzero(repeated).tolist()
    return Edit(dropped, [], {}, {}) if dropped else None


def _copies(record: Record) -> np.ndarray:
    """Return int64[n, 6]: tensor, first element, rows, columns, stride and halvings of each LOAD that copies
    elements; NO_TENSOR for other instructions, and for LOADs with padding."""
    copies = np.full((len(record), 1 + len(SIZES)), NO_TENSOR)
    numbers, fields = record.table(isa.Load)
    dense = ~fields[:, PADS].any(axis=1) & np.isin(fields[:, 0], OPERANDS)
    numbers, fields = numbers[dense], fields[dense]
    copies[numbers, 0] = record.tensors()[numbers]
    copies[numbers, 1:] = fields[:, SIZES]
    return copies


def _written(record: Record, config: AcceleratorConfig) -> tuple[IntArray, IntArray]:
    """Return int64[n] and int64[n]: begin and end of what each instruction writes of the memories OPERANDS,
    which lie one behind the other; equal where an instruction writes nothing there."""
    moving = np.isin(record.opcodes(), [form.opcode for form in forms_in_dram()])
    touched = record.touched()
    begin, end = np.zeros((2, len(record)), np.int64)
    base = 0
    for memory in OPERANDS:
        here = (touched[:, :, 0] == memory) & (touched[:, :, 2] > touched[:, :, 1]) & moving[:, None]
        numbers, accesses = np.nonzero(here)
        low, high = np.clip(touched[numbers, accesses, 1:], 0, config.depth(memory)).T
        begin[numbers], end[numbers] = base + low, base + high
        base += config.depth(memory)
    return begin, end


@whole
def _search(
    copies: Grid,
    begin: Ints,
    end: Ints,
    written: Ints,
    versions: Ints,
    tensors: Ints,
    held: Ints,
    elements: Ints,
    halvings: Ints,
    repeated: Ints,
) -> None:
    """Set `repeated` to 1 for each repeated LOAD.

    Args:
        copies, begin, end: of each instruction, see `_copies` and `_written`.
        written: the tensor that each instruction writes, or NO_TENSOR.
        versions: how often each tensor was written so far, 0 each.
        tensors, held, elements, halvings: what each place on chip holds: the tensor, its version, the
            element, and the halvings of the LOAD; UNKNOWN each.
        repeated: int64[n], 0 each.
    """
    for number in range(begin.size):
        if written[number] != NO_TENSOR:
            versions[written[number]] += 1
        tensor, element, rows = copies[number, 0], copies[number, 1], copies[number, 2]
        columns, stride, halved = copies[number, 3], copies[number, 4], copies[number, 5]
        if tensor == NO_TENSOR or rows * columns != end[number] - begin[number]:
            for place in range(begin[number], end[number]):
                tensors[place] = UNKNOWN
            continue
        same = 1
        for row in range(rows):
            for column in range(columns):
                place, source = begin[number] + row * columns + column, element + row * stride + column
                fits = tensors[place] == tensor and held[place] == versions[tensor]
                if not fits or elements[place] != source or halvings[place] != halved:
                    same = 0
                halvings[place] = halved
                tensors[place], held[place], elements[place] = tensor, versions[tensor], source
        repeated[number] = same

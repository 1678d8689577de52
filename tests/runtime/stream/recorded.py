"""What a record holds, instruction by instruction."""

from typing import NamedTuple

from vdla.hw.spec import isa
from vdla.runtime.stream.micro_kernels import MicroKernel
from vdla.runtime.stream.record import FIELDS, Record


class Recorded(NamedTuple):
    """An instruction: its form, its FIELDS, the number of its tensor, its micro-kernel, the number of its label."""

    form: type[isa.Instruction]
    row: tuple[int, ...]
    tensor: int
    uops: MicroKernel | None
    owner: int


def instructions(record: Record) -> list[Recorded]:
    """Return the instructions of a record in order."""
    rows = {}
    for form in FIELDS:
        numbers, fields = record.table(form)
        rows |= {
            number: (form, tuple(row)) for number, row in zip(numbers.tolist(), fields.tolist(), strict=True)
        }
    tensors, kernels = record.tensors().tolist(), record.kernels()
    return [
        Recorded(*rows[number], tensors[number], kernels.get(number), record.owners[number])
        for number in range(len(record))
    ]

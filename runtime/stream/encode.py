"""Instruction streams from columns of fields, at NumPy speed."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.meaning import check_form

OPERANDS = ("dst", "src", "wgt")


def encode_rows(
    form: type[isa.Instruction],
    config: AcceleratorConfig,
    names: Sequence[str],
    rows: Sequence[Sequence[int]] | NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Return uint64[n, instruction_bits / 64]: instructions of one form.

    Args:
        names: of the fields that `rows` give; the others are 0.
        rows: a value for each name, per instruction.

    Raises:
        EncodingError: a value does not fit its field.
    """
    check_form(form, config)
    values = np.asarray(rows, np.int64).reshape(len(rows), len(names))
    words = blank_words(len(rows), config)
    words[:, 0] = int(form.opcode)
    placed: Mapping[str, PlacedField] = {field.name: field for field in encoding.layout(form, config)}
    for column, name in enumerate(names):
        field = placed.get(name)
        if field is None:
            _refuse_nonzero(form, name, values[:, column])
            continue
        _check(form, field, values[:, column])
        word, start = divmod(field.start, encoding.WORD_BITS)
        words[:, word] |= (values[:, column] & ((1 << field.width) - 1)).astype(np.uint64) << np.uint64(start)
    return words


def blank_words(count: int, config: AcceleratorConfig) -> NDArray[np.uint64]:
    """Return uint64[count, instruction_bits / 64]: zeros."""
    return np.zeros((count, config.instruction_bits // encoding.WORD_BITS), np.uint64)


def encode_micro_ops(rows: Sequence[tuple[int, int, int]], config: AcceleratorConfig) -> list[int]:
    """Return the words of micro-ops, given as dst, src and wgt each.

    Raises:
        EncodingError: a value does not fit its field.
    """
    fields = {field.name: field for field in encoding.layout(isa.MicroOp, config)}
    columns = zip(OPERANDS, zip(*rows, strict=True), strict=True) if rows else ()
    if any(min(values) < 0 or max(values) > fields[name].high for name, values in columns):
        for row in rows:
            codec.encode(isa.MicroOp(**dict(zip(OPERANDS, row, strict=True))), config)  # names the field
    at_dst, at_src, at_wgt = (fields[name].start for name in OPERANDS)
    return [dst << at_dst | src << at_src | wgt << at_wgt for dst, src, wgt in rows]


def _refuse_nonzero(form: type, name: str, column: np.ndarray) -> None:
    if column.any():
        raise EncodingError(
            f"{form.__name__.upper()}.{name} = {column[column != 0][0]}, but this configuration has no "
            "such field"
        )


def _check(form: type, field: PlacedField, column: np.ndarray) -> None:
    low = -(field.high + 1) if field.signed else 0
    wrong = column[(column < low) | (column > field.high)]
    if wrong.size:
        raise EncodingError(
            f"{form.__name__.upper()}.{field.name} = {wrong[0]} is outside {low}..{field.high}"
        )

"""Columns of fields: bounds to the number, and the first value that does not fit is named."""

import numpy as np
import pytest

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.presets import DEFAULT, TINY, VTA
from vdla.runtime.stream.encode import blank_words, encode_micro_ops, encode_rows

WIDE = DEFAULT.with_changes(block_in=1, block_out=1, acc_buffer_bytes=1 << 20)


@pytest.mark.parametrize(("config", "words"), [(TINY, 2), (WIDE, 4)])
def test_blank_instructions_are_zeros_of_their_width(config, words):
    blank = blank_words(3, config)
    assert (blank.shape, blank.dtype) == ((3, words), np.uint64)
    assert not blank.any()


@pytest.mark.parametrize(
    ("form", "name", "low", "high"), [(isa.Load, "x_size", 0, 65535), (isa.Alu, "imm", -32768, 32767)]
)
def test_a_column_holds_its_least_and_its_greatest_value_and_the_first_other_is_named(form, name, low, high):
    words = encode_rows(form, TINY, [name], [[low], [high]])
    field = encoding.field_of(form, name, TINY)
    word, start = divmod(field.start, 64)
    mask = (1 << field.width) - 1
    assert [int(row[word]) >> start & mask for row in words] == [low & mask, high & mask]
    for wrong, other in ((low - 1, high + 9), (high + 1, low - 9)):
        with pytest.raises(EncodingError) as caught:
            encode_rows(form, TINY, [name], [[high], [wrong], [other]])
        assert str(caught.value) == f"{form.__name__.upper()}.{name} = {wrong} is outside {low}..{high}"


def test_a_field_that_is_not_there_may_be_zero_and_the_first_other_value_is_named():
    assert encode_rows(isa.Gemm, VTA, ["overwrite", "reset"], [[0, 0], [0, 1]]).shape == (2, 2)
    with pytest.raises(EncodingError) as caught:
        encode_rows(isa.Gemm, VTA, ["overwrite"], [[0], [2], [3]])
    assert str(caught.value) == "GEMM.overwrite = 2, but this configuration has no such field"


def test_the_first_micro_op_that_does_not_fit_is_named():
    high = encoding.field_of(isa.MicroOp, "src", TINY).high
    assert len(encode_micro_ops([(0, high, 0)], TINY)) == 1
    for wrong in (high + 1, -1):
        rows = [(0, high, 0), (0, wrong, 0), (0, high + 7, 0)]
        with pytest.raises(EncodingError, match=rf"^UOP\.src = {wrong} is outside 0\.\.{high}$"):
            encode_micro_ops(rows, TINY)
    assert encode_micro_ops([], TINY) == []

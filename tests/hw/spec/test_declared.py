"""Declared fields: widths that follow from memories, and bits that one field takes from others."""

from dataclasses import fields

import pytest

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.declared import INDEX_LETTERS, width_of
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.presets import DEFAULT, TINY, VTA
from vdla.hw.spec.vocabulary import Extension, MemoryType


def test_a_width_is_a_number_or_follows_from_the_depth_of_a_memory():
    assert width_of(14, TINY) == 14
    for letter, memory in INDEX_LETTERS.items():
        assert width_of(letter, TINY) == TINY.index_bits(memory)
    assert width_of("U+1", TINY) == TINY.index_bits(MemoryType.UOP) + 1


def test_a_field_that_stands_instead_of_others_has_just_their_bits():
    """And it is the extension of the field that the others give way to."""
    declared = {field.name: field.metadata for field in fields(isa.Store)}
    others = {name for about in declared.values() for name in about["instead_of"]}
    assert others == {name for name, about in declared.items() if about["gives_way_to"]}
    before = {field.name: field for field in encoding.layout(isa.Store, VTA)}
    after = {field.name: field for field in encoding.layout(isa.Store, DEFAULT)}
    assert not others & after.keys()
    for name, about in declared.items():
        replaced = [before[other] for other in about["instead_of"]]
        if replaced:
            assert {declared[field.name]["gives_way_to"] for field in replaced} == {about["extension"]}
            assert (after[name].start, after[name].end) == (replaced[0].start, replaced[-1].end)


@pytest.mark.parametrize("extension", [Extension.TABLE, Extension.RESIDUAL])
def test_one_of_the_two_extensions_leaves_the_other_fields_as_they_are(extension):
    config = TINY.with_changes(extensions=(Extension.REQUANTISE, extension))
    names = {field.name for field in encoding.layout(isa.Store, config)}
    assert ("table" in names, "y_pad_0" in names) == (
        extension is Extension.TABLE,
        extension is Extension.RESIDUAL,
    )
    assert ("residual" in names, "x_pad_1" in names) == (
        extension is Extension.RESIDUAL,
        extension is Extension.TABLE,
    )


def test_a_field_whose_bits_are_anothers_is_refused():
    store = isa.Store(memory_type=MemoryType.OUT, x_pad_0=3)
    assert codec.decode(codec.encode(store, VTA), VTA) == store
    with pytest.raises(EncodingError) as caught:
        codec.encode(store, DEFAULT)
    assert str(caught.value) == (
        "STORE.x_pad_0 = 3 has no place: its bits belong to the extension 'residual', which is on; leave it at 0"
    )
    assert codec.decode(codec.encode(store, VTA), DEFAULT) == isa.Store(
        memory_type=MemoryType.OUT, residual=3 << 4
    )

"""The vectorised decoder says what the codec says, of every bit pattern."""

import numpy as np
import pytest

from tests.sim.helpers import CONFIG, OUT, gemm, load, stream_of
from vdla.hw.spec import codec, isa, units
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY, VTA
from vdla.sim.decoded import decode_stream, slots

CONFIGS = (
    DEFAULT,
    VTA,
    SMALL,
    TINY,
    CONFIG,
    TINY.with_changes(alu_opcodes=("MIN", "SHR")),
    VTA.with_changes(batch=2, uop_buffer_bytes=1 << 14, wgt_buffer_bytes=1 << 17),
)


@pytest.fixture(params=CONFIGS, ids=lambda config: config.name)
def config(request):
    return request.param


@pytest.fixture
def program(config):
    words = np.random.default_rng(1).integers(0, 256, (500, 16), dtype=np.uint8)
    words[:, 8:10] *= (np.arange(500) % 3 > 0)[:, None].astype(np.uint8)  # some empty transfers
    return decode_stream(words, config)


def decoded(program):
    """Return each instruction as the codec decodes it, None where it refuses."""
    found = []
    for index in range(len(program)):
        try:
            found.append(codec.decode(program.word(index), program.config))
        except EncodingError:
            found.append(None)
    return found


def edges(flags):
    """Return the edges for which `flags`, bool[4], is set."""
    return tuple(edge for edge, flag in zip(units.TOKEN_EDGES, flags, strict=True) if flag)


def test_validity_is_the_codecs(program):
    assert program.valid.tolist() == [instruction is not None for instruction in decoded(program)]
    assert 0 < program.valid.sum() < len(program)


def test_every_field_is_the_codecs(program):
    for index, instruction in enumerate(decoded(program)):
        if instruction is not None:
            own = slots(type(instruction), program.config)
            assert {name: program.table[index, slot] for name, slot in own.items()} == {
                name: getattr(instruction, name) for name in own
            }


def test_units_and_token_edges_are_the_specifications(program):
    for index, instruction in enumerate(decoded(program)):
        if instruction is not None:
            assert program.unit[index] == units.unit_of(instruction)
            assert edges(program.pops[index]) == units.pops(instruction)
            assert edges(program.pushes[index]) == units.pushes(instruction)


def test_a_column_holds_a_field_of_all_instructions_of_a_form():
    program = decode_stream(stream_of([load(OUT, x_size=3), gemm(), load(OUT, x_size=5)]), CONFIG)
    assert program.column(isa.Load, "x_size").tolist() == [3, 5]


def test_nothing_after_finish_is_dispatched():
    program = decode_stream(stream_of([gemm(), isa.Finish(), gemm()]), CONFIG)
    assert (program.dispatched, program.finishes) == (2, True)


def test_an_empty_stream_decodes():
    program = decode_stream(np.zeros((0, 16), np.uint8), CONFIG)
    assert (len(program), program.dispatched, program.finishes) == (0, 0, False)

"""A stream that would change itself is refused, to the byte; no other stream is."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.helpers import ACC, CONFIG, INP, OUT, UOP, gemm, load, store, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import OverwriteError, ProgramError
from vdla.hw.spec.vocabulary import Extension
from vdla.sim import rows
from vdla.sim.decoded import decode_stream
from vdla.sim.overwrites import refuse_overwrites

ADDRESS = 0x1000
STREAM = ADDRESS // 4  # as an element: OUT elements have four bytes here, as micro-ops do
FINISH = isa.Finish()


def refusal(instructions, address=ADDRESS) -> OverwriteError | None:
    return refusal_of(stream_of(instructions), address)


def refusal_of(stream, address) -> OverwriteError | None:
    try:
        refuse_overwrites(decode_stream(stream, CONFIG), address)
    except OverwriteError as error:
        return error
    return None


REFUSED = {
    "the last instruction": (
        (gemm(), store(dram_base=STREAM + 8), FINISH),
        "{1} overwrites instruction 2 of the stream that is running, DRAM bytes 0x1020..0x1023",
    ),
    "itself": (
        (store(dram_base=STREAM, x_size=9), FINISH),
        "{0} overwrites instruction 0 of the stream that is running, DRAM bytes 0x1000..0x100f",
    ),
    "the first byte, from below": (
        (store(dram_base=STREAM - 3, x_size=4), FINISH),
        "{0} overwrites instruction 0 of the stream that is running, DRAM bytes 0x1000..0x1003",
    ),
    "behind FINISH": (
        (store(dram_base=STREAM + 11), FINISH, gemm()),
        "{0} overwrites instruction 2 of the stream that is running, DRAM bytes 0x102c..0x102f",
    ),
    "the third row": (
        (store(dram_base=STREAM - 200, y_size=9, x_size=2, x_stride=101), FINISH),
        "{0} overwrites instruction 0 of the stream that is running, DRAM bytes 0x1008..0x100f",
    ),
    "micro-ops loaded before": (
        (load(UOP, dram_base=64, x_size=4), store(dram_base=66), FINISH),
        "{1} overwrites micro-ops that {0} reads, DRAM bytes 0x108..0x10b",
    ),
    "micro-ops loaded later": (
        (store(dram_base=63, x_size=9), load(UOP, dram_base=64, x_size=4), FINISH),
        "{0} overwrites micro-ops that {1} reads, DRAM bytes 0x100..0x10f",
    ),
    "one row of micro-ops": (
        (
            load(UOP),
            load(UOP, dram_base=64, y_size=3, x_stride=7),
            store(dram_base=60, y_size=3, x_stride=9),
            FINISH,
        ),
        "{2} overwrites micro-ops that {1} reads, DRAM bytes 0x138..0x13b",
    ),
    "one row of several, behind a load of one row": (
        (
            load(UOP, dram_base=64),
            load(UOP, dram_base=70, y_size=3, x_stride=7),
            store(dram_base=66),
            store(dram_base=84),
            FINISH,
        ),
        "{3} overwrites micro-ops that {1} reads, DRAM bytes 0x150..0x153",
    ),
    "the last row of micro-ops, between others": (
        (
            load(UOP, dram_base=64),
            load(UOP, dram_base=80, y_size=2, x_size=3, x_stride=9),
            load(UOP, dram_base=120),
            load(UOP, dram_base=40, y_size=2, x_size=3, x_stride=5),
            store(dram_base=91, x_size=3),
            FINISH,
        ),
        "{4} overwrites micro-ops that {1} reads, DRAM bytes 0x16c..0x16f",
    ),
    "the first of two stores": (
        (load(UOP, dram_base=64), store(dram_base=64), store(dram_base=STREAM), FINISH),
        "{1} overwrites micro-ops that {0} reads, DRAM bytes 0x100..0x103",
    ),
    "the first of two stores, the other way": (
        (load(UOP, dram_base=64), store(dram_base=STREAM), store(dram_base=64), FINISH),
        "{1} overwrites instruction 0 of the stream that is running, DRAM bytes 0x1000..0x1003",
    ),
}
RULE = "; a stream must not change what it executes: let the STORE write elsewhere, or "
REMEDY = {
    "stream": f"{RULE}put the stream elsewhere",
    "micro-ops": f"{RULE}load the micro-ops from elsewhere",
}


def test_a_normalise_that_writes_is_refused_as_a_store_is_and_one_that_gathers_writes_nothing():
    config = CONFIG.with_changes(extensions=tuple(Extension))
    place = {"memory_type": OUT, "dram_base": STREAM, "y_size": 1, "x_size": 1}
    gathers, writes = isa.Normalise(**place), isa.Normalise(**place, normal=1)
    later = store(dram_base=STREAM)
    for instructions, refused in (
        ((gathers, FINISH), None),
        ((gathers, writes, later, FINISH), 1),
        ((gathers, later, writes, FINISH), 1),
    ):
        program = decode_stream(stream_of(instructions, config), config)
        if refused is None:
            refuse_overwrites(program, ADDRESS)
            continue
        with pytest.raises(OverwriteError) as caught:
            refuse_overwrites(program, ADDRESS)
        name = instructions[refused].opcode.name
        assert caught.value.index == refused
        assert f"let the {name} write elsewhere, or put the stream elsewhere" in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_a_stream_that_changes_itself_is_refused_with_the_bytes(name):
    instructions, message = REFUSED[name]
    error = refusal(instructions)
    named = [f"instruction {index} ({format_instruction(item)})" for index, item in enumerate(instructions)]
    assert (
        str(error) == message.format(*named) + REMEDY["stream" if "of the stream" in message else "micro-ops"]
    )
    assert isinstance(error, ProgramError)
    assert str(error).startswith(f"instruction {error.index} ")


@pytest.mark.parametrize(
    "instructions",
    [
        (
            store(dram_base=STREAM - 1),
            store(dram_base=STREAM + 16),
            store(dram_base=STREAM - 5, y_size=2, x_size=5, x_stride=21),
            FINISH,
        ),
        (store(dram_base=STREAM, x_size=0), store(dram_base=STREAM, y_size=0), FINISH),
        (FINISH, store(dram_base=STREAM)),
        (
            load(UOP, dram_base=64, y_size=3, x_stride=2),
            store(dram_base=65, y_size=2, x_stride=2),
            store(dram_base=63),
            store(dram_base=69),
            FINISH,
        ),
        (
            load(UOP, dram_base=64, x_size=0),
            load(UOP, dram_base=64, y_size=0, y_pad_0=1),
            store(dram_base=64),
            FINISH,
        ),
        (load(ACC, dram_base=16), load(INP, dram_base=64), store(dram_base=64), FINISH),
        (store(dram_base=64), FINISH, load(UOP, dram_base=64)),
        (
            load(UOP, dram_base=64),
            load(UOP, dram_base=80, y_size=2, x_size=3, x_stride=9),
            load(UOP, dram_base=120),
            load(UOP, dram_base=40, y_size=2, x_size=3, x_stride=5),
            *(store(dram_base=base) for base in (39, 43, 44, 48, 63, 65, 68, 79, 83, 88, 92, 119, 121)),
            FINISH,
        ),
        (FINISH,),
        (),
    ],
    ids=[
        "around the stream",
        "of nothing",
        "behind FINISH",
        "between micro-ops",
        "micro-ops of nothing",
        "operands",
        "micro-ops behind FINISH",
        "between micro-ops of several loads",
        "no STORE",
        "no instruction",
    ],
)
def test_a_stream_that_stores_elsewhere_is_not_refused(instructions):
    assert refusal(instructions) is None


def test_a_stream_outside_dram_keeps_its_micro_ops():
    assert refusal((store(dram_base=STREAM), FINISH), None) is None
    assert refusal((load(UOP, dram_base=STREAM), store(dram_base=STREAM), FINISH), None) is not None


def test_what_comes_behind_an_invalid_instruction_does_not_count():
    stream = stream_of((gemm(), store(dram_base=STREAM), FINISH)).copy()
    stream[0] = 7
    assert refusal_of(stream, ADDRESS) is None


TRANSFERS = st.fixed_dictionaries(
    {
        "dram_base": st.integers(STREAM - 40, STREAM + 40),
        "y_size": st.integers(0, 5),
        "x_size": st.integers(0, 6),
        "x_stride": st.integers(0, 12),
    }
)
LOADS = st.builds(lambda fields: load(UOP, **fields), TRANSFERS)
STORES = st.builds(lambda fields: store(**fields), TRANSFERS)


def bytes_of(item: isa.Load | isa.Store) -> set[int]:
    elements = {
        item.dram_base + y * item.x_stride + x for y in range(item.y_size) for x in range(item.x_size)
    }
    return {4 * element + byte for element in elements for byte in range(4)}


@pytest.mark.parametrize("part", [1, 7, rows.PART_ROWS])
def test_the_check_agrees_with_sets_of_bytes(part, monkeypatch):
    monkeypatch.setattr(rows, "PART_ROWS", part)

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(LOADS | STORES, max_size=6), st.integers(-12, 12))
    def agrees(instructions, distance):
        address = ADDRESS + 16 * distance
        stored = [
            (index, bytes_of(item)) for index, item in enumerate(instructions) if isinstance(item, isa.Store)
        ]
        kept = set(range(address, address + 16 * (len(instructions) + 1)))
        kept |= {byte for item in instructions if isinstance(item, isa.Load) for byte in bytes_of(item)}
        expected = next((index for index, written in stored if written & kept), None)
        error = refusal((*instructions, FINISH), address)
        assert (None if error is None else error.index) == expected
        if error is not None:
            first, last = (
                int(end, 16) for end in str(error).partition("DRAM bytes ")[2].partition(";")[0].split("..")
            )
            assert set(range(first, last + 1)) <= dict(stored)[expected] & kept

    agrees()


def test_transfers_that_lie_apart_are_not_taken_apart_into_rows(monkeypatch):
    listed = []
    monkeypatch.setattr(rows.DramRows, "listed", lambda self: listed.append(int(self.count.sum())) or ())
    stores = [store(dram_base=(1 << 20) + index, y_size=65535, x_stride=3) for index in range(100)]
    loads = [load(UOP, dram_base=index, y_size=65535, x_stride=7) for index in range(100)]
    assert refusal((*stores, *loads, FINISH)) is None
    assert sum(listed) == 0


@pytest.mark.parametrize("field", ["dram_base", "y_size", "x_size", "x_stride"])
def test_of_transfers_that_are_alike_one_is_taken_apart_into_rows(monkeypatch, field):
    """Two kinds of LOADs, which differ in one field, again and again in turn; the STORE lies between."""
    listed, real = [], rows.DramRows.listed
    monkeypatch.setattr(
        rows.DramRows, "listed", lambda self: listed.append(int(self.count.sum())) or real(self)
    )
    fields = {"dram_base": 64, "y_size": 30, "x_size": 2, "x_stride": 9}
    kinds = [load(UOP, **fields), load(UOP, **fields | {field: fields[field] + 1})]
    assert refusal((*kinds * 20, store(dram_base=70), FINISH)) is None
    assert sum(listed) == sum(kind.y_size for kind in kinds)

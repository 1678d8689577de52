"""The verifier refuses what is unsafe, in words that say what is missing, and nothing else."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from generators.programs import random_config, random_program

from tests.sim import helpers
from tests.sim.helpers import (
    ACC,
    ACC_8BIT,
    CONFIG,
    INP,
    RES,
    TABLE,
    UOP,
    WGT,
    alu,
    gemm,
    load,
    stream_of,
)
from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.errors import DeadlockError, InvalidInstructionError, OverwriteError, UnfinishedError
from vdla.hw.spec.vocabulary import AluOpcode, Extension, Parameter
from vdla.runtime.vectors import load_vector
from vdla.sim.decoded import decode_stream
from vdla.sim.verify import verifier
from vdla.sim.verify.columns import footprint_columns
from vdla.sim.verify.shadow import new_shadow
from vdla.sim.verify.touch import BEYOND, BROKEN, CONFLICT, EMPTY
from vdla.sim.verify.verifier import Finding, VerificationError, clocks, findings, verify, verify_once

VECTORS = sorted((Path(__file__).parents[2] / "vectors" / "vta").glob("*.npz"))
IMAGE = np.zeros(1 << 14, np.uint8)


def store(**fields: int) -> isa.Store:
    """Return a STORE of one element, away from the micro-ops, or as `fields` say."""
    return helpers.store(**{"dram_base": 512, **fields})


READY = (load(UOP), load(INP), load(WGT, push_next=1), gemm(pop_prev=1, reset=1))

PARAMETERS = load(ACC, sram_base=12, x_size=4)  # the fourth and last set


def decoded(*instructions):
    return decode_stream(stream_of((*instructions, isa.Finish()), CONFIG), CONFIG)


SAFE = {
    "load, multiply, store": (*READY, gemm(push_next=1), store(pop_prev=1)),
    "an overwritten accumulator": (
        load(UOP),
        load(INP),
        load(WGT, push_next=1),
        gemm(pop_prev=1, overwrite=1, push_next=1),
        store(pop_prev=1),
    ),
    "a buffer used again behind a token": (
        *READY,
        gemm(push_prev=1),
        load(INP, pop_next=1, push_next=1),
        gemm(pop_prev=1),
    ),
    "what one token orders, all before it": (
        load(UOP),
        load(INP),
        load(INP, sram_base=1),
        load(WGT, push_next=1),
        gemm(pop_prev=1, reset=1),
        gemm(),
    ),
    "loaded behind the store of it, through the compute unit": (
        *READY,
        gemm(push_next=1),
        store(pop_prev=1, dram_base=256, push_prev=1),
        load(UOP, x_size=0, pop_next=1, push_prev=1),
        load(INP, pop_next=1, dram_base=256),
    ),
    "parameters loaded before": (
        PARAMETERS,
        load(UOP),
        gemm(reset=1, push_next=1),
        store(pop_prev=1, parameters=4),
    ),
    "parameters of a store of nothing": (store(x_size=0, parameters=5), store(y_size=0, parameters=4)),
    "an operation on itself": (load(ACC), load(UOP), alu(AluOpcode.ADD, use_imm=1)),
}


@pytest.mark.parametrize("name", SAFE)
def test_safe_streams_pass(name):
    assert findings(decoded(*SAFE[name]), IMAGE) == []


UNSAFE = {
    "a token forgotten between load and product": (
        (load(UOP), load(INP), load(WGT), gemm(reset=1), gemm()),
        "{4} and {1} both use INP element 0, and no token orders them: a token load->compute is missing, "
        "pushed by the load unit from instruction 1 on and popped by the compute unit up to instruction 4",
    ),
    "a buffer loaded again too early": (
        (*READY, gemm(), load(INP)),
        "{5} and {4} both use INP element 0, and no token orders them: a token compute->load is missing, "
        "pushed by the compute unit from instruction 4 on and popped by the load unit up to instruction 5",
    ),
    "a result stored too early": (
        (load(UOP), gemm(reset=1), store(dram_base=256)),
        "{2} and {1} both use ACC element 0, and no token orders them: a token compute->store is missing, "
        "pushed by the compute unit from instruction 1 on and popped by the store unit up to instruction 2",
    ),
    "an accumulator changed under a store": (
        (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1), gemm(reset=1)),
        "{3} and {2} both use ACC element 0, and no token orders them: a token store->compute is missing, "
        "pushed by the store unit from instruction 2 on and popped by the compute unit up to instruction 3",
    ),
    "loaded while it is stored": (
        (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1, dram_base=256), load(INP, dram_base=256)),
        "{3} and {2} both use DRAM byte 0x400, and no token orders them: tokens store->compute->load are "
        "missing",
    ),
    "an input that nobody loaded": (
        (load(UOP), load(WGT, push_next=1), gemm(pop_prev=1, reset=1), gemm()),
        "{3} reads INP element 0, which nothing has written",
    ),
    "a sum that nobody began": (
        (load(UOP), load(INP), load(WGT, push_next=1), gemm(pop_prev=1)),
        "{3} reads ACC element 0, which nothing has written",
    ),
    "a store of nothing": ((store(),), "{0} reads ACC element 0, which nothing has written"),
    "a micro-op that nobody loaded": ((gemm(reset=1),), "{0} reads UOP element 0, which nothing has written"),
    "parameters that nobody loaded": (
        (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1, parameters=4)),
        "{2} reads ACC element 12, which nothing has written",
    ),
    "parameters used too early": (
        (load(UOP), gemm(reset=1, push_next=1), PARAMETERS, store(pop_prev=1, parameters=4)),
        "{3} and {2} both use ACC element 12, and no token orders them: a token compute->store is missing, "
        "pushed by the compute unit from instruction 2 on and popped by the store unit up to instruction 3",
    ),
    "parameters changed under a store": (
        (
            PARAMETERS,
            load(UOP),
            gemm(reset=1, push_next=1),
            store(pop_prev=1, parameters=4, dram_base=256),
            PARAMETERS,
        ),
        "{4} and {3} both use ACC element 12, and no token orders them: a token store->compute is missing, "
        "pushed by the store unit from instruction 3 on and popped by the compute unit up to instruction 4",
    ),
    "parameters past the end": (
        (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1, parameters=5)),
        "{2} reaches ACC element 16, which does not exist",
    ),
    "parameters past the end, of the last accumulator": (
        (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1, sram_base=15, parameters=6)),
        "{2} reaches ACC element 20, which does not exist",
    ),
    "past the end of a scratchpad": (
        (load(INP, sram_base=15, x_size=2),),
        "{0} reaches INP element 16, which does not exist",
    ),
    "past the end of DRAM": (
        (load(INP, dram_base=1 << 12),),
        "{0} reaches DRAM byte 0x4000, which does not exist",
    ),
    "a loop past the end": (
        (load(UOP), gemm(reset=1, iter_in=2, dst_factor_in=15), gemm(reset=1, iter_in=3, dst_factor_in=8)),
        "{2} reaches ACC element 16, which does not exist",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_streams_are_refused_with_the_reason(name):
    instructions, message = UNSAFE[name]
    named = [f"instruction {index} ({format_instruction(item)})" for index, item in enumerate(instructions)]
    with pytest.raises(VerificationError) as caught:
        verify(decoded(*instructions), IMAGE)
    assert str(caught.value) == message.format(*named)


@pytest.mark.parametrize(("first", "element"), [(0, 18), (4, 16), (6, 18), (15, 16), (17, 17)])
def test_rows_that_leave_a_scratchpad_are_named_by_their_first_element_outside(first, element):
    """INP has 16 elements; rows of two elements begin `first`, `first` + 6, ..."""
    config = CONFIG.with_changes(extensions=(*CONFIG.extensions, Extension.FEEDBACK))
    rows = store(memory_type=INP, dram_base=first, y_size=4, x_size=2, x_stride=6)
    program = decode_stream(stream_of((load(UOP), rows, isa.Finish()), config), config)
    assert Finding(BEYOND, 1, -1, INP, element) in findings(program, IMAGE)


def parameter(row, **fields):
    """Return a LOAD of a parameter of the fourth set."""
    return load(ACC, sram_base=12 + row, **fields)


SCALED = (load(UOP), gemm(reset=1, push_next=1), store(pop_prev=1, parameters=4, dram_base=256))


@pytest.mark.parametrize("row", Parameter)
def test_each_parameter_that_nobody_loaded_is_named(row):
    others = [parameter(other) for other in Parameter if other != row]
    report = findings(decoded(*others, *SCALED), IMAGE)
    assert report == [Finding(EMPTY, 5, -1, ACC, 12 + row)]


@pytest.mark.parametrize("row", Parameter)
def test_each_parameter_that_is_loaded_too_late_conflicts(row):
    report = findings(decoded(PARAMETERS, *SCALED[:2], parameter(row), *SCALED[2:]), IMAGE)
    assert report == [Finding(CONFLICT, 4, 3, ACC, 12 + row)]


@pytest.mark.parametrize("row", Parameter)
def test_each_parameter_that_changes_under_a_store_conflicts(row):
    report = findings(decoded(PARAMETERS, *SCALED, parameter(row)), IMAGE)
    assert report == [Finding(CONFLICT, 4, 3, ACC, 12 + row)]


def test_an_opcode_that_the_verifier_does_not_know_is_refused():
    """Decoding refuses what the configuration lacks; this guards against an instruction that is added to it
    alone."""
    program = decoded(load(UOP), load(ACC))
    program.opcode[1] = 1 << encoding.OPCODE_BITS
    message = (
        f"instruction 1 ({program.word(1):#034x}) has opcode 8, which the verifier does not know; "
        "it knows LOAD (0), STORE (1), GEMM (2), FINISH (3), ALU (4), DEPTHWISE (5), "
        "GATHER (6), NORMALISE (7)"
    )
    with pytest.raises(InvalidInstructionError) as caught:
        verify(program, IMAGE)
    assert (str(caught.value), caught.value.index) == (message, 1)


@pytest.mark.parametrize(
    ("instructions", "error"),
    [
        ((gemm(pop_prev=1),), DeadlockError),
        ((gemm(), 7), InvalidInstructionError),
        ((gemm(), None), UnfinishedError),
    ],
)
def test_streams_that_do_not_come_to_their_end_are_refused(instructions, error):
    stream = stream_of(
        [*(item for item in instructions if isinstance(item, isa.Instruction)), isa.Finish()], CONFIG
    ).copy()
    if instructions[-1] == 7:
        stream[-1] = 7
    with pytest.raises(error):
        verify(decode_stream(stream[:-1] if instructions[-1] is None else stream, CONFIG), IMAGE)


def test_a_stream_that_would_change_itself_is_refused():
    program = decoded(*READY, gemm(push_next=1), store(pop_prev=1))
    assert findings(program, IMAGE, stream_address=2048 + 4) == []
    for address in (2048, 2048 - 16 * len(program) + 4):
        with pytest.raises(OverwriteError, match="of the stream that is running"):
            verify(program, IMAGE, stream_address=address)
    with pytest.raises(OverwriteError, match=r"micro-ops that instruction 0 .* reads"):
        verify(decoded(*READY, gemm(push_next=1), store(pop_prev=1, dram_base=0)), IMAGE)


def test_scratchpads_may_be_filled_before():
    assert findings(decoded(gemm()), IMAGE, filled=True) == []
    assert len(findings(decoded(gemm()), IMAGE)) > 1


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_pass(seed):
    program = random_program(random_config(seed), seed, 60)
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, program.config.instruction_bytes)
    assert findings(decode_stream(stream, program.config), program.image, filled=True) == []


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_streams_of_vta_pass_but_for_what_they_never_load(path):
    vector = load_vector(path)
    dram = np.zeros(max(segment.end for segment in vector.segments), np.uint8)
    for segment in vector.segments:
        dram[segment.address : segment.address + segment.initial.size] = segment.initial
    program = decode_stream(vector.stream, vector.config)
    assert findings(program, dram, filled=True) == []
    assert path.stem in ("fuzz1_d", "fuzz3_d") or findings(program, dram) == []


def test_clocks_know_what_tokens_tell():
    program = decoded(
        load(INP), load(INP, push_next=1), gemm(pop_prev=1, push_next=1), store(pop_prev=1), gemm()
    )
    known = clocks(program, np.arange(len(program)))
    assert known.tolist() == [[-1, -1, -1], [-1, -1, -1], [1, -1, -1], [1, 2, -1], [1, -1, -1], [1, -1, -1]]


EVERYTHING = CONFIG.with_changes(extensions=tuple(Extension), res_buffer_bytes=64)
FOLLOWED = (
    load(ACC, x_size=8),
    load(TABLE, x_size=isa.TABLE_ELEMENTS),
    load(RES, sram_base=1, push_next=1),
    store(pop_prev=1, sram_base=7, parameters=2, table=1, residual=2),
)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (load(RES, sram_base=2), []),
        (load(TABLE, sram_base=isa.TABLE_ELEMENTS), []),
        (load(RES, sram_base=1), [Finding(CONFLICT, 4, 3, RES, 1)]),
        (load(TABLE, sram_base=5), [Finding(CONFLICT, 4, 3, TABLE, 5)]),
        (load(ACC, sram_base=0), [Finding(CONFLICT, 4, 3, ACC, 0)]),
    ],
    ids=str,
)
def test_tables_and_residuals_are_elements_of_their_own_memories(item, expected):
    """What stands beside them is another element, and no byte of DRAM."""
    program = decode_stream(stream_of((*FOLLOWED, item, isa.Finish()), EVERYTHING), EVERYTHING)
    assert findings(program, IMAGE) == expected


BESIDE = load(ACC, sram_base=8, x_size=8, beside=1)
WORKED = (load(UOP), load(ACC, x_size=8))


@pytest.mark.parametrize(
    ("instructions", "broken"),
    [
        ((*WORKED, gemm(reset=1), BESIDE), []),
        ((*WORKED, gemm(reset=1, dst_factor_in=7, iter_in=2), BESIDE), []),
        ((*WORKED, gemm(reset=1, dst_factor_in=8, iter_in=2), BESIDE), [(3, 2, 8)]),
        ((*WORKED, gemm(reset=1), load(ACC, sram_base=7, x_size=2, beside=1)), [(3, 2, 7)]),
        ((*WORKED, gemm(reset=1), load(ACC, x_size=8)), []),
        ((*WORKED, gemm(reset=1), load(ACC, x_size=8, beside=1, push_prev=1)), []),
        ((*WORKED, gemm(reset=1), load(ACC, x_size=0, beside=1)), []),
        ((*WORKED, BESIDE, alu(AluOpcode.ADD, use_imm=1), load(ACC, x_size=1, beside=1)), [(4, 3, 0)]),
        ((*WORKED, BESIDE, alu(AluOpcode.ADD, src_factor_in=8, iter_in=2), BESIDE), [(4, 3, 8)]),
        ((*WORKED, gemm(reset=1, iter_in=0), load(ACC, beside=1)), []),
        ((*WORKED, gemm(reset=1, iter_in=9000), load(ACC, sram_base=2, beside=1)), [(3, 2, 2)]),
        ((*WORKED, BESIDE, gemm(reset=1), gemm(reset=1, dst_factor_out=8, iter_in=0), BESIDE), []),
    ],
    ids=str,
)
def test_a_promise_to_stay_out_of_a_half_is_held(instructions, broken):
    program = decode_stream(stream_of((*instructions, isa.Finish()), EVERYTHING), EVERYTHING)
    reported = [(it.index, it.partner, it.element) for it in findings(program, IMAGE) if it.kind == BROKEN]
    assert reported == broken


HALF = EVERYTHING.depth(ACC) // 2
UOP_OF_HALF = (0, 1)  # micro-ops: the first works in the lower half, the second in the upper
BLOCKS = [(0, 1), (HALF - 1, 1), (HALF - 1, 2), (HALF, 1), (HALF - 2, 4), (2 * HALF - 1, 1), (0, 2 * HALF)]
FLAGS = [{}, {"push_prev": 1}, {"push_next": 1}]


@pytest.mark.parametrize("half", UOP_OF_HALF)
@pytest.mark.parametrize("memory", [ACC, ACC_8BIT, INP, WGT, UOP, RES])
def test_each_load_into_acc_is_held_to_its_promise_by_every_element(memory, half):
    """Only LOADs that push nothing and write an element of the half in use break their promise."""
    image = IMAGE.copy()
    uops = [isa.MicroOp(dst=part * HALF) for part in UOP_OF_HALF]
    image[:8] = np.frombuffer(codec.uops_to_bytes(uops, EVERYTHING), np.uint8)
    step = gemm(reset=1, uop_begin=half, uop_end=half + 1)
    for (begin, count), flags, promises in product(BLOCKS, FLAGS, (0, 1)):
        size = min(count, EVERYTHING.depth(memory) - begin)
        item = load(memory, sram_base=begin, dram_base=64, x_size=size, beside=promises, **flags)
        program = decode_stream(
            stream_of((load(UOP, x_size=2), step, item, isa.Finish()), EVERYTHING), EVERYTHING
        )
        used = [place for place in range(begin, begin + size) if place // HALF == half]
        held = memory in (ACC, ACC_8BIT) and promises and not flags
        broken = [it for it in findings(program, image) if it.kind == BROKEN]
        assert [(it.index, it.partner) for it in broken] == ([(2, 1)] if held and used else []), item
        assert all(it.memory == ACC and it.element in used for it in broken), item


def test_a_broken_promise_is_told():
    stream = stream_of((*WORKED, gemm(reset=1), load(ACC, beside=1), isa.Finish()), EVERYTHING)
    with pytest.raises(
        VerificationError, match=r"instruction 3 .* promises by `beside` to write no half of ACC"
    ):
        verify(decode_stream(stream, EVERYTHING), IMAGE)


@pytest.mark.parametrize(
    "fields",
    [
        {"dram_base": 4097, "x_size": 1, "y_size": 1},
        {"dram_base": 4096, "x_size": 2, "y_size": 1, "step": 3},
        {"dram_base": 4096, "x_size": 1, "y_size": 2, "x_stride": 5},
    ],
    ids=["begin", "length", "distance of rows"],
)
def test_only_pages_that_hold_rows_of_odd_bytes_take_tables_of_bytes(fields):
    """A GATHER from any byte on leaves the tables of other pages as small as they are without it."""
    odd = isa.Gather(memory_type=INP, push_next=1, **fields)
    wide = load(INP, dram_base=2 * 4096 // EVERYTHING.element_bytes(INP), x_size=8)
    program = decode_stream(stream_of((wide, odd, isa.Finish(pop_prev=1)), EVERYTHING), EVERYTHING)
    items, walks = footprint_columns(program)
    shadow = new_shadow(EVERYTHING, items, walks, 4 * 4096, filled=False)
    smallest = min(EVERYTHING.element_bytes(memory) for memory in (UOP, INP, WGT, ACC, RES, TABLE))
    assert [1 << shift for shift in shadow.shifts[1:3]] == [1, smallest]
    assert len(shadow.read) == shadow.dram_first + 4096 + 4096 // smallest


# Streams that were verified before


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Return a list that gets an entry for every stream that is verified; the cache is empty at first."""
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))
    asked, whole = [], verifier.verify

    def counted(program, dram, **options):
        asked.append(program)
        whole(program, dram, **options)

    monkeypatch.setattr(verifier, "verify", counted)
    return asked


STREAM = (load(UOP, dram_base=4, x_size=2), *SAFE["load, multiply, store"][1:])
STREAM_ADDRESS = 1 << 12


def test_a_safe_stream_is_verified_once(asked):
    for _ in range(3):
        verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    assert len(asked) == 1


def test_an_unsafe_stream_is_refused_every_time(asked):
    for _ in range(2):
        with pytest.raises(VerificationError):
            verify_once(decoded(*STREAM[1:]), IMAGE, stream_address=STREAM_ADDRESS)
    assert len(asked) == 2


def _with_byte(place: int) -> np.ndarray:
    image = IMAGE.copy()
    image[place] = 1
    return image


UOP_BYTES = CONFIG.element_bytes(UOP)
ANOTHER = CONFIG.with_changes(token_depth=CONFIG.token_depth + 1)
CHANGES = {
    "an instruction": (lambda: decoded(load(UOP, dram_base=8, x_size=2), *STREAM[1:]), IMAGE, STREAM_ADDRESS),
    "one instruction more": (lambda: decoded(*STREAM, store()), IMAGE, STREAM_ADDRESS),
    "the first micro-op": (lambda: decoded(*STREAM), _with_byte(4 * UOP_BYTES), STREAM_ADDRESS),
    "the last micro-op": (lambda: decoded(*STREAM), _with_byte(6 * UOP_BYTES - 1), STREAM_ADDRESS),
    "the size of DRAM": (lambda: decoded(*STREAM), IMAGE[: 1 << 13], STREAM_ADDRESS),
    "the address of the stream": (lambda: decoded(*STREAM), IMAGE, STREAM_ADDRESS + 64),
    "the configuration": (
        lambda: decode_stream(stream_of((*STREAM, isa.Finish()), CONFIG), ANOTHER),
        IMAGE,
        STREAM_ADDRESS,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_stream_is_verified_again_after_a_change_of(name, asked):
    verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    program, image, address = CHANGES[name]
    for _ in range(2):
        try:
            verify_once(program(), image, stream_address=address)
        except VerificationError:  # a micro-op that names an element without data
            assert "micro-op" in name
    assert len(asked) > 1


def test_a_stream_is_verified_again_after_a_change_of_the_verifier(asked, monkeypatch):
    verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    monkeypatch.setattr(verifier, "revision", lambda folder: f"another revision of {folder}")
    verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    assert len(asked) == 2


def test_a_byte_of_dram_that_is_no_micro_op_changes_nothing(asked):
    for place in (4 * UOP_BYTES - 1, 6 * UOP_BYTES):
        verify_once(decoded(*STREAM), _with_byte(place), stream_address=STREAM_ADDRESS)
    assert len(asked) == 1


def test_a_stream_is_verified_again_if_its_entry_is_damaged(asked, tmp_path):
    verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    (entry,) = (tmp_path / "verified").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    verify_once(decoded(*STREAM), IMAGE, stream_address=STREAM_ADDRESS)
    assert len(asked) == 2

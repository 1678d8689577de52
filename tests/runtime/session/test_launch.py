"""Launching: tensors get their places, a stream that leaves them is refused, and nothing unsafe runs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import random_inputs
from tests.sim.helpers import ACC, CONFIG, INP, UOP, WGT, gemm, load, store, stream_of
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import AccessError, EncodingError, VdlaError
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices import checked
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.file import from_bytes, to_bytes
from vdla.runtime.module.plan import ModuleError, Plan
from vdla.runtime.session.launch import (
    Launch,
    Tensor,
    _elsewhere,
    allocate,
    check_tensors,
    place,
    place_stream,
)
from vdla.runtime.session.session import Session
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.verifier import VerificationError

LARGE = DEFAULT.with_changes(block_in=128, block_out=128, wgt_buffer_bytes=1 << 20, acc_buffer_bytes=1 << 20)
FINISH = isa.Finish()
A, W, U = Tensor(0x1000, 64), Tensor(0x2000, 64, writable=False), Tensor(0x3000, 16, writable=False)
TENSORS = {"a": A, "w": W, "micro-ops": U}
OUT_A, UOP_U, UOP_A, WGT_W = 0x1000 // 4, 0x3000 // 4, 0x1000 // 4, 0x2000 // 16  # first elements


@pytest.mark.parametrize("config", [TINY, DEFAULT, LARGE], ids=["tiny", "default", "large"])
def test_tensors_stand_at_multiples_of_every_element_and_apart(config):
    device, ends = FunctionalDevice(config, 1 << 20), 0
    for size in (1, 5000, 4096, 3):
        address = allocate(device, size)
        assert all(address % config.element_bytes(memory) == 0 for memory in MemoryType)
        assert ends <= address
        ends = address + size


def test_tensors_are_written_and_read_by_name():
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    placed = place(
        FunctionalDevice(TINY, 1 << 20), stream, dict.fromkeys(stream.tensors, 1024) | {"more": 64}
    )
    values = np.arange(16, dtype=np.int32).reshape(4, 4)
    placed.write("more", values)
    np.testing.assert_array_equal(placed.read("more", (4, 4), np.int32), values)


@pytest.mark.parametrize(("options", "times"), [({}, 1), ({"verifies": True}, 1), ({"verifies": False}, 0)])
def test_a_stream_is_proved_safe_once_unless_that_is_not_wanted(options, times, monkeypatch):
    asked = []
    monkeypatch.setattr(
        checked, "verify_once", lambda program, dram, stream_address, **_: asked.append(stream_address)
    )
    _, plan = handmade("only the host")
    assert not plan.streams
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    device = FunctionalDevice(TINY, 1 << 20)
    placed = place(device, stream, dict.fromkeys(stream.tensors, 1024), **options)
    tensors = {name: Tensor(placed.addresses[name], 1024) for name in stream.tensors}
    beside = place_stream(device, stream, tensors, **options)
    alone = Launch(device, stream, placed.addresses, placed.stream_address, **options)
    for launch in (placed, beside, alone):
        asked.clear()
        for _ in range(3):
            launch.run()
        assert asked == [launch.stream_address] * times


def check(instructions, users) -> None:
    positions = {name: np.array(indices, int) for name, indices in users.items()}
    check_tensors(decode_stream(stream_of(instructions), CONFIG), positions, TENSORS)


INSIDE = {
    "all of each": (
        (
            load(UOP, dram_base=UOP_U, x_size=4),
            load(WGT, dram_base=WGT_W, x_size=4),
            store(dram_base=OUT_A, x_size=16),
            FINISH,
        ),
        {"micro-ops": [0], "w": [1], "a": [2]},
    ),
    "rows up to the last byte": (
        (store(dram_base=OUT_A + 1, y_size=3, x_size=1, x_stride=7), FINISH),
        {"a": [0]},
    ),
    "rows on the same bytes": (
        (store(dram_base=OUT_A + 15, y_size=9, x_size=1, x_stride=0), FINISH),
        {"a": [0]},
    ),
    "transfers of nothing": (
        (load(INP, x_size=0), store(y_size=0), load(ACC, y_size=0, y_pad_0=1), FINISH),
        {"a": [1]},
    ),
    "behind FINISH": ((FINISH, store(dram_base=0)), {}),
    "an operand from a tensor that is written": ((load(INP, dram_base=OUT_A), FINISH), {"a": [0]}),
    "parameters from weights": ((load(ACC, dram_base=0x2000 // 16), FINISH), {"w": [0]}),
}


@pytest.mark.parametrize("name", INSIDE)
def test_a_stream_inside_its_tensors_passes(name):
    check(*INSIDE[name])


AT_A, AT_W, AT_U = "'a' at 0x1000..0x103f", "'w' at 0x2000..0x203f", "'micro-ops' at 0x3000..0x300f"
OUTSIDE = {
    "{0} writes DRAM bytes 0x1040..0x1043, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A + 16), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0xffc..0x1003, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A - 1, x_size=2), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0x1038..0x1043, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A, y_size=5, x_size=3, x_stride=7), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0xffc..0xfff, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A - 1, y_size=30, x_size=1, x_stride=7), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0x1090..0x1093, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A + 36, y_size=3, x_size=1, x_stride=7), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0x1048..0x104b, outside its tensor " + AT_A: (
        (store(dram_base=OUT_A + 18, y_size=3, x_size=1, x_stride=0), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0x2000..0x2003, of the tensor 'w', which is read-only": (
        (store(dram_base=0x2000 // 4, y_size=2, x_size=1, x_stride=8), FINISH),
        {"w": [0]},
    ),
    "{1} reads DRAM bytes 0x2030..0x204f, outside its tensor " + AT_W: (
        (gemm(), load(WGT, dram_base=WGT_W + 3, x_size=2), FINISH),
        {"w": [1]},
    ),
    "{0} reads DRAM bytes 0x300c..0x3013, outside its tensor " + AT_U: (
        (load(UOP, dram_base=UOP_U + 3, x_size=2), FINISH),
        {"micro-ops": [0]},
    ),
    "{0} writes DRAM bytes 0x1000..0x1003, outside its tensor " + AT_W: (
        (store(dram_base=OUT_A), FINISH),
        {"w": [0]},
    ),
    "{1} writes DRAM bytes 0x2000..0x2003, of the tensor 'w', which is read-only": (
        (load(WGT, dram_base=WGT_W), store(dram_base=0x2000 // 4), FINISH),
        {"w": [0, 1]},
    ),
    "{0} writes DRAM bytes 0x3000..0x3003, of the tensor 'micro-ops', which is read-only": (
        (store(dram_base=UOP_U), FINISH),
        {"micro-ops": [0]},
    ),
    "{0} reads DRAM bytes 0x1000..0x1003, as micro-ops, of the tensor 'a', which is writable": (
        (load(UOP, dram_base=UOP_A), FINISH),
        {"a": [0]},
    ),
    "{0} writes DRAM bytes 0x1044..0x1047, but belongs to no tensor; the nearest is " + AT_A: (
        (store(dram_base=OUT_A + 17), FINISH),
        {"a": [], "w": []},
    ),
    "{0} reads DRAM bytes 0x1fe0..0x1fef, but belongs to no tensor; the nearest is " + AT_W: (
        (load(WGT, dram_base=WGT_W - 2), FINISH),
        {"a": [], "w": []},
    ),
    "{0} writes DRAM bytes 0x1000..0x1003, and the stream has no tensors": (
        (store(dram_base=OUT_A), FINISH),
        {},
    ),
    "instruction 1 is relocated to two tensors, 'a' and 'w'": (
        (gemm(), store(dram_base=OUT_A), FINISH),
        {"a": [1], "w": [1]},
    ),
    "instruction 1 is relocated to the tensor 'a', but is neither LOAD nor STORE nor GATHER nor NORMALISE": (
        (store(dram_base=OUT_A), gemm(), FINISH),
        {"a": [0, 1]},
    ),
}


@pytest.mark.parametrize("message", OUTSIDE)
def test_a_stream_that_reaches_outside_its_tensors_is_refused(message):
    instructions, users = OUTSIDE[message]
    named = [f"instruction {index} ({format_instruction(item)})" for index, item in enumerate(instructions)]
    with pytest.raises(AccessError) as caught:
        check(instructions, users)
    assert str(caught.value) == message.format(*named) + "; compile it again"
    assert str(caught.value).startswith(f"instruction {caught.value.index} ")


@pytest.mark.parametrize(
    ("names", "byte", "nearest"),
    [
        ("ab", 17, "a"),  # as near to both
        ("ba", 17, "b"),
        ("ba", 16, "a"),
        ("ab", 18, "b"),
        ("ba", 12, "a"),
        ("ca", 14, "a"),
        ("ac", 15, "c"),
        ("abc", 0, "a"),
        ("abc", 99, "b"),
    ],
)
def test_the_nearest_tensor_is_named(names, byte, nearest):
    places = {"a": 10, "b": 20, "c": 15}
    tensors = {name: Tensor(places[name], 5) for name in names}
    begin = places[nearest]
    assert _elsewhere(None, byte, tensors) == (
        f"but belongs to no tensor; the nearest is {nearest!r} at {begin:#x}..{begin + 4:#x}"
    )


def test_the_first_transfer_that_is_wrong_is_named():
    with pytest.raises(AccessError) as caught:
        check(
            (store(dram_base=OUT_A), store(dram_base=0), load(INP, dram_base=0), store(dram_base=0), FINISH),
            {"a": [0, 1, 2, 3]},
        )
    assert caught.value.index == 1


# Launches of built streams


def test_a_launch_whose_tensor_is_too_small_is_refused():
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    device = FunctionalDevice(TINY, 1 << 20)
    with pytest.raises(AccessError, match=r"outside its tensor '.*' at .*; compile it again"):
        place(device, stream, dict.fromkeys(stream.tensors, 3))
    assert not device.dram.any()


def test_an_address_that_does_not_fit_is_refused():
    _, plan = handmade("several ends")
    stream = next(iter(plan.streams.values()))
    with pytest.raises(
        EncodingError,
        match=r"^instruction \d+ has dram_base = \d+ in the tensor '.*', which is outside 0\.\.4294967295; ",
    ):
        stream.relocated(dict.fromkeys(stream.tensors, 1 << 40))


# Modules whose digest is right, but whose arrays are not what the compiler wrote

TITLE = "residual"
DRAM_BASE = encoding.field_of(isa.Load, "dram_base", TINY)
Y_SIZE = encoding.field_of(isa.Load, "y_size", TINY)


def resealed(title: str = TITLE, **changes: object) -> Plan:
    """Return a module, read from a file with a right digest, whose first stream was changed."""
    _, plan = handmade(title)
    name, stream = next(iter(plan.streams.items()))
    return from_bytes(to_bytes(replace(plan, streams={**plan.streams, name: replace(stream, **changes)})))


def first_stream(title: str = TITLE) -> Stream:
    return next(iter(handmade(title)[1].streams.values()))


def transfers(stream: Stream, form: type) -> list[int]:
    """Return the positions of LOADs or STOREs that move something."""
    program = decode_stream(stream.words.view(np.uint8).reshape(-1, 16), TINY)
    return [
        index
        for index in np.flatnonzero(program.opcode == form.opcode).tolist()
        if program.instruction(index).x_size
    ]


def with_field(form: type, field: PlacedField, value: int) -> np.ndarray:
    """Return the words of the first stream with a field of the first transfer of `form` changed."""
    words, (index, *_) = first_stream().words.copy(), transfers(first_stream(), form)
    half, start = divmod(field.start, 64)
    words[index, half] &= ~np.uint64(field.high << start)
    words[index, half] |= np.uint64(value << start)
    return words


def moved(source: str, target: str) -> dict[str, np.ndarray]:
    """Return the positions of the first stream with the first STORE of one tensor moved to another."""
    tensors, stores = dict(first_stream().tensors), transfers(first_stream(), isa.Store)
    store_of = next(index for index in tensors[source].tolist() if index in stores)
    return {
        **tensors,
        source: tensors[source][tensors[source] != store_of],
        target: np.append(tensors[target], store_of),
    }


def names() -> tuple[str, str, str]:
    """Return tensors of the first stream: a stored tensor, a tensor of weights and a loaded tensor."""
    _, plan = handmade(TITLE)
    stream = first_stream()
    stored = next(
        name
        for name, positions in stream.tensors.items()
        if set(positions) & set(transfers(stream, isa.Store))
    )
    return stored, next(name for name in stream.tensors if name in plan.weights), UOP_TENSOR


STORED, WEIGHTS, MICRO_OPS = names()
ALTERED = {
    "a STORE far away": (lambda: {"words": with_field(isa.Store, DRAM_BASE, 1 << 20)}, "writes DRAM bytes"),
    "a STORE at the end of its tensor": (
        lambda: {"words": with_field(isa.Store, DRAM_BASE, handmade(TITLE)[1].tensors[STORED] // 4)},
        "writes DRAM bytes",
    ),
    "a STORE of more rows": (lambda: {"words": with_field(isa.Store, Y_SIZE, 60000)}, "writes DRAM bytes"),
    "a LOAD far away": (lambda: {"words": with_field(isa.Load, DRAM_BASE, 1 << 20)}, "reads DRAM bytes"),
    "an address that overflows": (
        lambda: {"words": with_field(isa.Store, DRAM_BASE, DRAM_BASE.high)},
        "which is outside 0..4294967295",
    ),
    "a STORE relocated to weights": (lambda: {"tensors": moved(STORED, WEIGHTS)}, f"tensor '{WEIGHTS}'"),
    "a STORE relocated to micro-ops": (lambda: {"tensors": moved(STORED, MICRO_OPS)}, "tensor 'micro-ops'"),
    "an instruction relocated twice": (
        lambda: {"tensors": {**first_stream().tensors, WEIGHTS: first_stream().tensors[STORED]}},
        "relocated to two tensors",
    ),
    "no relocation": (
        lambda: {"tensors": {**first_stream().tensors, STORED: np.zeros(0, int)}},
        "but belongs to no tensor; the nearest is",
    ),
    "a relocated FINISH": (
        lambda: {"tensors": {**first_stream().tensors, STORED: np.array([first_stream().count - 1])}},
        "is neither LOAD nor STORE nor GATHER",
    ),
    "fewer micro-ops": (lambda: {"uops": first_stream().uops[:-1]}, "outside its tensor 'micro-ops' at 0x"),
    "no micro-ops": (
        lambda: {"uops": first_stream().uops[:0]},
        "outside its tensor 'micro-ops', which is empty",
    ),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_module_is_refused_before_anything_runs(name):
    change, message = ALTERED[name]
    plan = resealed(**change())
    with pytest.raises(ModuleError) as caught:
        Session(FunctionalDevice(TINY, plan.dram_bytes), plan)
    assert str(caught.value).startswith(f"module {plan.name}, stream launch0: instruction ")
    assert message in str(caught.value)
    assert "compile it again" in str(caught.value)


def test_micro_ops_that_reach_too_far_are_refused_before_the_stream_runs():
    plan = resealed(uops=np.full_like(first_stream().uops, 0xFFFFFFFF))
    device = FunctionalDevice(TINY, plan.dram_bytes)
    session, before = Session(device, plan), device.machine.pads.acc.copy()
    with pytest.raises(VerificationError, match=r"which (does not exist|nothing has written)"):
        session.run(random_inputs(handmade(TITLE)[0], 0))
    np.testing.assert_array_equal(device.machine.pads.acc, before)


def test_names_that_stand_for_two_tensors_are_refused():
    _, plan = handmade(TITLE)
    for tensors in ({**plan.tensors, WEIGHTS: 1 << 20}, {**plan.tensors, UOP_TENSOR: 64}):
        with pytest.raises(ModuleError, match="is the name of two tensors; compile the network again"):
            from_bytes(to_bytes(replace(plan, tensors=tensors)))


@pytest.mark.parametrize("title", ["split", "residual"])
def test_flipped_bits_never_change_dram_outside_the_tensors(title):
    rng, inputs, outcomes = (
        np.random.default_rng(0),
        random_inputs(handmade(title)[0], 0),
        {True: 0, False: 0},
    )
    for _ in range(150):
        words = first_stream(title).words.copy()
        for bit in rng.integers(words.size * 64, size=rng.integers(1, 3)).tolist():
            words.reshape(-1)[bit // 64] ^= np.uint64(1 << bit % 64)
        outcomes[survives(resealed(title, words=words), inputs, rng)] += 1
    assert min(outcomes.values())


def survives(plan: Plan, inputs: dict, rng: np.random.Generator) -> bool:
    """Run a module in the midst of noise; return whether it ran. What is no tensor must stay as it is."""
    device = FunctionalDevice(TINY, plan.dram_bytes + (1 << 16))
    device.copy_in(0, rng.integers(0, 256, len(device.dram), np.uint8))
    before, session = device.dram.copy(), None
    try:
        session = Session(device, plan)
        before = device.dram.copy()
        session.run(inputs)
        ran = True
    except VdlaError:
        ran = False
    kept = np.ones(len(before), bool)
    for name in plan.tensors if session else ():
        kept[session._tensors[name].address : session._tensors[name].end] = False
    if session:
        np.testing.assert_array_equal(device.dram[kept], before[kept])
    return ran

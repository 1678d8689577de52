"""Conformance vectors: all replay, and damaged files, streams and images are noticed."""

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import (
    DeadlockError,
    DeviceError,
    FileFormatError,
    InvalidInstructionError,
    ProgramError,
    UnfinishedError,
)
from vdla.runtime import vectors
from vdla.runtime.device import RunResult
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.vectors import load_vector, replay

FOLDER = Path(__file__).parents[1] / "vectors" / "vta"
FILES = sorted(FOLDER.glob("*.npz"))


def replayed(vector, seed=None):
    """Replay on the functional device."""
    return replay(vector, lambda config, dram_bytes: FunctionalDevice(config, dram_bytes, seed))


@pytest.fixture
def vector():
    return load_vector(FOLDER / "gemm_vt2_d.npz")


def test_there_are_vectors():
    assert len(FILES) >= 27


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_vector_replays(file, seed):
    outcome = replayed(load_vector(file), seed)
    assert outcome.conforms, str(outcome.first)


COUNTERS = {
    "INP_LOADED_BYTES": "inp_load_nbytes",
    "WGT_LOADED_BYTES": "wgt_load_nbytes",
    "UOP_LOADED_BYTES": "uop_load_nbytes",
    "OUT_STORED_BYTES": "out_store_nbytes",
    "ALU_STEPS": "alu_counter",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_moved_and_computed_is_what_vta_counted(file):
    vector = load_vector(file)
    counted = replayed(vector).run.counters
    assert {name: counted[name] for name in COUNTERS} == {
        name: vector.counters[vta] for name, vta in COUNTERS.items()
    }
    assert counted["GEMM_STEPS"] >= vector.counters["gemm_counter"]  # VTA does not count steps that reset


def without(vector, index, flag_bit):
    """Return `vector` with one bit of one instruction's first byte cleared."""
    stream = vector.stream.copy()
    assert stream[index, 0] >> flag_bit & 1
    stream[index, 0] &= ~(1 << flag_bit) & 0xFF
    return dataclasses.replace(vector, stream=stream)


PUSH_NEXT = 6


def test_a_lost_token_is_a_deadlock(vector):
    losing = [index for index in range(len(vector.stream)) if vector.stream[index, 0] >> PUSH_NEXT & 1]
    assert losing
    for index in losing:
        with pytest.raises(DeadlockError, match="waits for a token"):
            replayed(without(vector, index, PUSH_NEXT))


def test_a_swapped_address_is_noticed(vector):
    instructions = [codec.decode(word, vector.config) for word in codec.words(vector.stream.tobytes(), 16)]
    first, second, *_ = [
        index for index, it in enumerate(instructions) if isinstance(it, isa.Store) and it.x_size
    ]
    first_store, second_store = instructions[first], instructions[second]
    instructions[first] = dataclasses.replace(first_store, dram_base=second_store.dram_base)
    instructions[second] = dataclasses.replace(second_store, dram_base=first_store.dram_base)
    stream = np.frombuffer(codec.to_bytes(instructions, vector.config), np.uint8).reshape(-1, 16)
    outcome = replayed(dataclasses.replace(vector, stream=stream))
    assert not outcome.conforms
    segment = vector.segments[-1]
    assert f"of the segment at {segment.address:#x}) is " in str(outcome.first)


def test_a_wrong_opcode_is_noticed(vector):
    stream = vector.stream.copy()
    stream[5, 0] |= 7
    message = r"^instruction 5 \(0x[0-9a-f]{32}\) is invalid: opcode 7 is not an instruction"
    with pytest.raises(InvalidInstructionError, match=message):
        replayed(dataclasses.replace(vector, stream=stream))


def test_a_missing_finish_is_noticed(vector):
    with pytest.raises(UnfinishedError) as caught:
        replayed(dataclasses.replace(vector, stream=vector.stream[:-1]))
    assert (
        str(caught.value)
        == "all 79 instructions were executed and none was FINISH; end the stream with FINISH"
    )


def test_a_write_outside_every_segment_is_noticed(vector):
    segment = vector.segments[-1]
    hidden = dataclasses.replace(vector, segments=vector.segments[:-1])
    outcome = replayed(hidden)
    assert outcome.first.place == "outside every segment"
    assert outcome.differing_bytes == np.count_nonzero(segment.expected)


def test_a_changed_final_image_is_noticed(vector):
    segment = vector.segments[-1]
    final = segment.final.copy()
    final[7] ^= 1
    wrong = dataclasses.replace(
        vector, segments=(*vector.segments[:-1], dataclasses.replace(segment, final=final))
    )
    outcome = replayed(wrong)
    assert outcome.differing_bytes == 1
    assert str(outcome.first) == (
        f"byte {segment.address + 7:#x} (byte 7 of the segment at {segment.address:#x}) "
        f"is {final[7] ^ 1:#04x}, expected {final[7]:#04x}"
    )


@pytest.fixture
def arrays():
    with np.load(FILES[0]) as file:
        return {name: file[name] for name in file.files}


def refusal(tmp_path, arrays):
    """Return why a vector of `arrays` is refused."""
    path = tmp_path / "v.npz"
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError) as caught:
        load_vector(path)
    assert str(caught.value).startswith(f"{path} is not a conformance vector: ")
    return str(caught.value).partition("vector: ")[2]


def with_meta(arrays, **changes):
    """Return `arrays` with entries of meta changed."""
    meta = json.loads(arrays["meta"].tobytes()) | changes
    return arrays | {"meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)}


@pytest.mark.parametrize("name", ["meta", "instructions", "segment_addresses", "seg1_initial"])
def test_a_missing_array_is_named(tmp_path, arrays, name):
    del arrays[name]
    assert refusal(tmp_path, arrays) == f"the array {name!r} is missing"


DAMAGES = [
    (
        {"instructions": np.zeros((3, 15), np.uint8)},
        "instructions has shape (3, 15); it must be (n, 16) with n at least 1",
    ),
    (
        {"instructions": np.zeros((0, 16), np.uint8)},
        "instructions has shape (0, 16); it must be (n, 16) with n at least 1",
    ),
    (
        {"instructions": np.zeros(48, np.uint8)},
        "the array 'instructions' is uint8 with shape (48,); it must be uint8 with 2 dimensions",
    ),
    (
        {"segment_addresses": np.zeros(3, np.int32)},
        "the array 'segment_addresses' is int32 with shape (3,); it must be uint64 with 1 dimension",
    ),
    (
        {"segment_addresses": np.array([4096, 4100, 65536], np.uint64)},
        "the segment at 0x1000 ends at 0x1a00 and overlaps the segment at 0x1004",
    ),
    (
        {"segment_addresses": np.array([4096, 1 << 40, 65536], np.uint64)},
        "segment 1 ends at 0x10000000a00: DRAM up to there takes 1099511630336 bytes, and the limit is "
        "1073741824; "
        "VDLA_MEMORY_FACTOR=2 in the environment doubles every limit of memory",
    ),
    ({"seg2_final": np.zeros(3, np.uint8)}, "seg2_final has 3 bytes and seg2_initial 640"),
    ({"meta": np.frombuffer(b"[]", np.uint8)}, "meta is not a JSON object"),
    (
        {"meta": np.frombuffer(b"[" * 100_000, np.uint8)},
        "meta is not JSON: maximum recursion depth exceeded while decoding a JSON array from a unicode "
        "string",
    ),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_array_is_named(tmp_path, arrays, damage, message):
    assert refusal(tmp_path, arrays | damage) == message


METAS = [
    ({"config": {"batch": 3}}, "batch = 3 is not a power of two; the nearest are 2 and 4"),
    ({"config": {"width": 3}}, "meta.config has the unknown parameter 'width'"),
    ({"config": 3}, "meta.config is 3; it must be a dict"),
    ({"name": None}, "meta.name is None; it must be a str"),
]


@pytest.mark.parametrize(("changes", "message"), METAS)
def test_wrong_meta_data_is_named(tmp_path, arrays, changes, message):
    assert refusal(tmp_path, with_meta(arrays, **changes)) == message


def test_a_truncated_file_is_refused(tmp_path):
    path, data = tmp_path / "v.npz", FILES[0].read_bytes()
    for size in (*range(0, len(data), 397), len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(
            FileFormatError, match=r"v\.npz cannot be read as \.npz; it is truncated or altered"
        ):
            load_vector(path)


def contents(vector):
    """Return all of a vector in a form that compares."""
    segments = [
        (segment.address, segment.initial.tobytes(), segment.expected.tobytes())
        for segment in vector.segments
    ]
    return vector.name, vector.config, vector.stream.tobytes(), segments, vector.counters


SMALL = FOLDER / "padacc8_b8.npz"
DIRECTORY = SMALL.read_bytes().index(b"PK\1\2")


@pytest.mark.parametrize(
    "places", [range(0, DIRECTORY, 23), range(DIRECTORY, SMALL.stat().st_size)], ids=["arrays", "directory"]
)
def test_an_altered_file_is_refused_or_reads_the_same(tmp_path, places):
    path, original, expected = tmp_path / "v.npz", SMALL.read_bytes(), contents(load_vector(SMALL))
    for place in places:
        data = bytearray(original)
        data[place] ^= 0x55
        path.write_bytes(data)
        try:
            assert contents(load_vector(path)) == expected
        except FileFormatError:
            continue


@pytest.mark.parametrize("spelling", [str, Path])
def test_a_path_is_given_as_text_or_as_a_path(spelling, tmp_path):
    assert contents(load_vector(spelling(SMALL))) == contents(load_vector(SMALL))
    with pytest.raises(FileFormatError, match="not a conformance vector"):
        load_vector(spelling(tmp_path / "network.vdla"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 93])
def test_a_method_of_compression_that_numpy_does_not_write_is_refused(tmp_path, method):
    path, data = tmp_path / "v.npz", bytearray(SMALL.read_bytes())
    data[DIRECTORY + 10] = method
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=f"is compressed by method {method}"):
        load_vector(path)


def test_a_file_that_is_not_there_is_no_matter_of_format(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_vector(tmp_path / "v.npz")


@pytest.mark.parametrize("data", [b"", b"text", np.lib.format.MAGIC_PREFIX])
def test_another_kind_of_file_is_refused(tmp_path, data):
    path = tmp_path / "v.npz"
    path.write_bytes(data)
    with pytest.raises(FileFormatError):
        load_vector(path)


def test_an_array_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(FileFormatError):
        load_vector(path)


def test_pickles_are_not_read(tmp_path, arrays):
    path = tmp_path / "v.npz"
    np.savez(path, **arrays | {"meta": np.array([{}], object)}, allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"'meta\.npy' holds elements of type object, not numbers"):
        load_vector(path)


def test_bytes_beyond_an_initial_image_are_zero(vector):
    segment = vector.segments[-1]
    short = dataclasses.replace(segment, initial=segment.initial[:10])
    assert replayed(dataclasses.replace(vector, segments=(*vector.segments[:-1], short))).conforms


def test_the_stream_stands_on_a_page_after_the_last_segment(vector):
    address = vectors.stream_address(vector)
    assert address % vectors.PAGE_BYTES == 0
    assert address >= vector.segments[-1].end


# What a vector may take


def changed_vector(arrays, address: int, stream: bytes = b"", **options):
    """Return `arrays` whose last segment stands at `address`, with another stream and configuration."""
    addresses = np.array([*arrays["segment_addresses"][:-1], address], np.uint64)
    given = {"segment_addresses": addresses}
    if stream:
        given["instructions"] = np.frombuffer(stream, np.uint8).reshape(-1, 16)
    return with_meta(arrays | given, config=json.loads(arrays["meta"].tobytes())["config"] | options)


def loaded(tmp_path, arrays):
    np.savez(tmp_path / "v.npz", **arrays)
    return load_vector(tmp_path / "v.npz")


def test_a_vector_without_segments_replays(tmp_path, arrays):
    finish = codec.to_bytes([isa.Finish()], vectors.VTA)
    stream = np.frombuffer(finish, np.uint8).reshape(1, 16)
    vector = loaded(tmp_path, arrays | {"segment_addresses": np.zeros(0, np.uint64), "instructions": stream})
    assert replayed(vector).conforms


def test_segments_may_touch_and_are_read_in_any_order(tmp_path, arrays):
    size = arrays["seg0_initial"].size
    for given in ([1 << 20, 4096, 1 << 16], [4096, 4096 + size, 1 << 16]):
        addresses = {"segment_addresses": np.array(given, np.uint64)}
        assert [segment.address for segment in loaded(tmp_path, arrays | addresses).segments] == sorted(given)


@pytest.mark.parametrize("address", [(1 << 32) - 4096, (1 << 30) - 100, 1 << 63])
def test_a_segment_beyond_the_dram_that_is_simulated_is_refused(tmp_path, arrays, address):
    end = address + arrays["seg2_initial"].size
    assert refusal(tmp_path, changed_vector(arrays, address)) == (
        f"segment 2 ends at {end:#x}: DRAM up to there takes {end} bytes, and the limit is 1073741824; "
        "VDLA_MEMORY_FACTOR=2 in the environment doubles every limit of memory"
    )


def kib_of(name: str) -> int:
    """Return a figure of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def test_dram_of_which_nothing_is_written_takes_no_memory(tmp_path, arrays):
    address = (1 << 30) - 4096
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again from what is held now
    before = kib_of("VmHWM")
    outcome = replayed(loaded(tmp_path, changed_vector(arrays, address)))
    assert not outcome.conforms
    assert outcome.first.address < address
    assert kib_of("VmHWM") - before < 1 << 19  # half of that DRAM alone


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"name": "x" * 5000}, "meta.name holds 5000 characters; it may hold 200"),
        ({"name": "a\nb"}, r"meta.name = 'a\nb' holds characters that cannot be printed on one line"),
        ({"name": "\ud800"}, r"meta.name = '\ud800' holds characters that cannot be printed on one line"),
        ({"name": 10**4000}, "meta.name is a number of 13288 bits; it must be a str"),
        ({"config": {"x" * 5000: 1}}, "meta.config has the unknown parameter 'xxxxx"),
        ({"config": {"name": []}}, "name = [] is not text"),
    ],
)
def test_meta_that_is_long_or_odd_is_refused_in_one_line(tmp_path, arrays, meta, message):
    refusal_text = refusal(tmp_path, with_meta(arrays, **meta))
    assert refusal_text.startswith(message)
    assert "\n" not in refusal_text
    assert len(refusal_text) < 300


def test_meta_of_megabytes_is_refused(tmp_path, arrays):
    refusal_text = refusal(tmp_path, arrays | {"meta": np.zeros(vectors.MOST_META_BYTES + 1, np.uint8)})
    assert (
        refusal_text == f"meta has {vectors.MOST_META_BYTES + 1} bytes; it may have {vectors.MOST_META_BYTES}"
    )


def test_scratchpads_that_no_machine_holds_are_refused_before_they_are_made(tmp_path, arrays):
    huge = changed_vector(
        arrays,
        65536,
        wgt_buffer_bytes=1 << 30,
        inp_buffer_bytes=8 << 20,
        acc_buffer_bytes=32 << 20,
        batch=64,
        block_in=256,
        block_out=256,
    )
    message = r"^the functional model's scratchpads take \d+ bytes, and the limit is 536870912; "
    with pytest.raises(DeviceError, match=message):
        replayed(loaded(tmp_path, huge))


def test_a_stream_whose_tables_no_machine_holds_is_refused(monkeypatch, vector):
    monkeypatch.setattr("vdla.sim.decoded.TABLE_BYTES", 40_000)
    message = (
        r"^decoding and verifying a stream of 80 instructions takes 40960 bytes, and the limit is 40000; "
    )
    with pytest.raises(ProgramError, match=message):
        replayed(vector)


def test_names_and_meta_of_the_greatest_length_are_read(tmp_path, arrays):
    assert loaded(tmp_path, with_meta(arrays, name="x" * 200)).name == "x" * 200
    message = "meta.name holds 201 characters; it may hold 200"
    assert refusal(tmp_path, with_meta(arrays, name="x" * 201)) == message
    meta = arrays["meta"].tobytes().ljust(1 << 20)
    assert loaded(tmp_path, arrays | {"meta": np.frombuffer(meta, np.uint8)}).segments
    message = "meta has 1048577 bytes; it may have 1048576"
    assert refusal(tmp_path, arrays | {"meta": np.frombuffer(meta + b" ", np.uint8)}) == message


def filled(address: int, size: int, final: int | None = None) -> vectors.Segment:
    """Return a segment of which no byte is 0."""
    values = [np.arange(count, dtype=np.uint8) % 250 + 1 for count in (size, final or size)]
    return vectors.Segment(address, values[0], values[1] if final else None)


PLACED = dataclasses.replace(
    load_vector(SMALL), segments=(filled(5, 10), filled(15, 3, 8), filled(4096, 100, 100), filled(9000, 1))
)


def test_the_stream_stands_a_mebibyte_behind_the_last_segment():
    for address, pages in ((4095, 1), (4096, 2)):  # ends at a page, and one byte behind it
        vector = dataclasses.replace(PLACED, segments=(filled(address, 1),))
        assert vectors.stream_address(vector) == (1 << 20) + 4096 * pages
    assert vectors.stream_address(dataclasses.replace(PLACED, segments=())) == 1 << 20
    asked = []

    def device(config, dram_bytes):
        asked.append(dram_bytes)
        return FunctionalDevice(config, dram_bytes)

    vector = load_vector(SMALL)
    assert replay(vector, device).conforms
    assert asked == [vectors.stream_address(vector) + vector.stream.size + (1 << 20)]


@pytest.mark.parametrize("part", [7, 4096, 1 << 22])
@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ([4], "outside every segment"),
        ([14, 15, 9000], "byte 9 of the segment at 0x5"),
        ([22, 4096], "byte 7 of the segment at 0xf"),
        ([23], "outside every segment"),
        ([4096], "byte 0 of the segment at 0x1000"),
        ([4195, 4196], "byte 99 of the segment at 0x1000"),
        ([9001, 9002, 20_000], "outside every segment"),
        ([29_999], "outside every segment"),
        ([], None),
    ],
)
def test_every_byte_of_dram_is_compared_whatever_is_compared_at_a_time(part, wrong, place, monkeypatch):
    monkeypatch.setattr(vectors, "COMPARED_BYTES", part)
    monkeypatch.setattr(vectors, "stream_address", lambda vector: 12_288)
    dram = np.zeros(30_000, np.uint8)
    for segment in PLACED.segments:
        dram[segment.address : segment.end] = segment.expected
    dram[12_288 : 12_288 + PLACED.stream.size] = PLACED.stream.reshape(-1)
    expected = dram.copy()
    dram[wrong] += 3
    run = RunResult(None, 0.0)
    device = FunctionalDevice(PLACED.config, len(dram))
    device.copy_in(0, dram)
    outcome = vectors._compare(PLACED, run, device)
    assert (outcome.run, outcome.differing_bytes, outcome.conforms) == (run, len(wrong), not wrong)
    if wrong:
        first = int(expected[wrong[0]])
        assert outcome.first == vectors.Difference(wrong[0], first, first + 3, place)
    else:
        assert outcome.first is None

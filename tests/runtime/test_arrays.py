"""Files of arrays are measured before they are unpacked."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from tests.runtime.zips import archive, npy, with_size, zeros
from vdla.hw.spec.errors import FileFormatError, VdlaError
from vdla.hw.spec.limits import ARCHIVE_MEMBERS, ARRAY_BYTES
from vdla.runtime.arrays import _fill, npy_from, npz_from, read_npz, write_npy, write_npz

MIB = 1 << 20


def refused(path) -> tuple[str, int]:
    """Return why a file is refused, and the peak of what was allocated to find out."""
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError) as caught:
            read_npz(path)
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npz"


VALUES = {
    "matrix": np.arange(12, dtype=np.int32).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "number": np.array(3.5),
    "none": np.zeros((0, 4), np.uint8),
    "big endian": np.arange(3, dtype=">u2"),
    "text": np.array(["a", "bc"]),
}


def test_objects_are_not_written(path):
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_npz(path, {"x": np.array([{}], object)})
    assert not path.exists()


def test_what_is_written_is_read_as_numpy_reads_it(path):
    write_npz(path, VALUES)
    arrays = read_npz(path)
    with np.load(path) as file:
        for name in VALUES:
            assert arrays[name].dtype == file[name].dtype
            assert arrays[name].tolist() == file[name].tolist() == VALUES[name].tolist()
    assert arrays["matrix"].flags.writeable


def test_compressed_arrays_are_read(path):
    np.savez_compressed(path, **VALUES)
    assert read_npz(path)["matrix"].tolist() == VALUES["matrix"].tolist()


def test_an_archive_that_unfolds_to_more_than_the_limit_is_not_unpacked(path):
    part = zeros(ARRAY_BYTES // 8)
    path.write_bytes(archive({f"{number}.npy": part for number in range(8)}))
    message, peak = refused(path)
    total = 8 * len(part)
    assert message == (
        f"{path} is not unpacked: its arrays take {total} bytes, and the limit is {ARRAY_BYTES}; "
        "VDLA_MEMORY_FACTOR=2 in the environment doubles every limit of memory"
    )
    assert peak < 10 * MIB


def test_an_array_whose_header_promises_more_than_the_archive_has_takes_no_memory(path):
    path.write_bytes(archive({"x.npy": npy((1 << 40,), b"12")}))
    message, peak = refused(path)
    assert message.endswith("'x.npy' is an array of 1099511627776 bytes, and the file has 2 of it")
    assert peak < 10 * MIB


@pytest.mark.parametrize("shape", [(1 << 62, 1 << 62), (-2, -1), (-1,), (1,) * 70, (2, 0, 1 << 62)])
def test_shapes_that_no_array_has_are_refused(path, shape):
    path.write_bytes(archive({"x.npy": npy(shape, b"12")}))
    assert str(path) in refused(path)[0]


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("|O", "'x.npy' holds elements of type object, not numbers"),
        ("|V8", "'x.npy' holds elements of type |V8, not numbers"),
        ("|S0", "'x.npy' holds elements of type |S0, not numbers"),
        ("<M8[s]", "'x.npy' holds elements of type datetime64[s], not numbers"),
        ([("a", "<i4")], "'x.npy' holds elements of type [('a', '<i4')], not numbers"),
        ("nonsense", "nonsense"),
    ],
)
def test_elements_that_are_no_numbers_are_refused(path, dtype, reason):
    path.write_bytes(archive({"x.npy": npy((1,), bytes(8), dtype)}))
    message = refused(path)[0]
    assert message.startswith(f"{path} cannot be read as .npz; it is truncated or altered: ")
    assert reason in message


def test_a_directory_that_hides_what_a_member_unfolds_to_is_refused(path):
    path.write_bytes(with_size(archive({"x.npy": zeros(50 * MIB)}), 1000))
    message, peak = refused(path)
    assert "Bad CRC-32 for file 'x.npy'" in message
    assert peak < 20 * MIB


def test_a_directory_and_a_header_that_both_lie_unpack_no_more_than_they_say(path):
    inner = npy((872,), bytes(50 * MIB))
    path.write_bytes(with_size(archive({"x.npy": inner}), 1000))
    message, peak = refused(path)
    assert "Bad CRC-32" in message
    assert peak < 20 * MIB


def test_a_directory_that_promises_more_than_a_member_has_is_refused(path):
    path.write_bytes(with_size(archive({"x.npy": npy((100 * MIB,), b"12")}), 100 * MIB + 128))
    assert "x.npy" in refused(path)[0]


def test_two_members_of_one_name_are_refused(path):
    data = archive({"x.npy": zeros(3), "y.npy": zeros(3)})
    path.write_bytes(data.replace(b"y.npy", b"x.npy"))
    assert refused(path)[0].endswith("two of its members have one name")


def test_an_archive_of_very_many_members_is_refused_before_its_directory_is_read(path):
    path.write_bytes(archive({"x.npy": zeros(3)}) + b"PK\x01\x02" * ARCHIVE_MEMBERS)
    text = f"it has {ARCHIVE_MEMBERS + 1} members, and the limit is {ARCHIVE_MEMBERS}; "
    assert text in refused(path)[0]


def test_a_file_longer_than_the_limit_is_not_read_to_its_end(path, monkeypatch):
    monkeypatch.setattr("vdla.runtime.arrays.ARRAY_BYTES", 1000)
    path.write_bytes(bytes(1001))
    assert refused(path)[0] == f"{path} has more than 1000 bytes, and no more are read of such a file"


def test_the_limits_can_be_raised(path, monkeypatch):
    monkeypatch.setattr("vdla.runtime.arrays.ARRAY_BYTES", 1000)
    write_npz(path, {"x": np.zeros(900)})
    refused(path)
    monkeypatch.setenv("VDLA_MEMORY_FACTOR", "10")
    assert read_npz(path)["x"].size == 900


@pytest.mark.parametrize("factor", ["0", "-1", "1.5", "two", "", "9" * 5000, "²"])
def test_a_factor_that_is_none_is_refused(path, monkeypatch, factor):
    monkeypatch.setenv("VDLA_MEMORY_FACTOR", factor)
    with pytest.raises(VdlaError, match=r"^VDLA_MEMORY_FACTOR = .* is not a whole number of at least 1$"):
        read_npz(path)


def test_a_reason_is_cut_to_300_characters(path):
    name = repr(f"{'x' * 400}.npy")
    path.write_bytes(archive({f"{'x' * 400}.npy": npy((3,), b"12")}))
    reason = f"{name} is an array of 3 bytes, and the file has 2 of it"
    assert refused(path)[0] == (
        f"{path} cannot be read as .npz; it is truncated or altered: {reason[:297]}..."
    )


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (0, 0), (1, 1), (2, 1)])
def test_headers_of_the_first_two_versions_are_read(version):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    data = b"\x93NUMPY" + bytes(version) + size + header + b"\x07\x09"
    if version in ((1, 0), (2, 0)):
        assert npy_from(data, "x").tolist() == [7, 9]
    else:
        with pytest.raises(
            FileFormatError, match=r"^x cannot be read as \.npy; it is truncated or altered: "
        ):
            npy_from(data, "x")


@pytest.mark.parametrize("name", VALUES)
def test_an_array_alone_is_read_as_it_is_written(name, tmp_path):
    write_npy(tmp_path / "x.npy", VALUES[name])
    array = npy_from((tmp_path / "x.npy").read_bytes(), "x")
    assert (array.dtype, array.tolist()) == (VALUES[name].dtype, VALUES[name].tolist())
    for data in ((tmp_path / "x.npy").read_bytes() + b"1", (tmp_path / "x.npy").read_bytes()[:-1]):
        with pytest.raises(FileFormatError, match=r"^x cannot be read as "):
            npy_from(data, "x")
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_npy(tmp_path / "y.npy", np.array([{}], object))


def test_members_compressed_in_another_way_are_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("x.npy", zeros(3))
    with pytest.raises(FileFormatError, match=r"'x\.npy' is compressed by method 12$"):
        npz_from(path.read_bytes(), "x")


@pytest.mark.parametrize("piece", [1, 2, 100])
def test_a_member_of_another_length_than_the_archive_says_is_refused(piece, monkeypatch):
    monkeypatch.setattr("vdla.runtime.arrays.PIECE_BYTES", piece)
    values = np.zeros(3, np.uint8)
    _fill(values, io.BytesIO(b"123"), "x")
    assert values.tobytes() == b"123"
    with pytest.raises(ValueError, match=r"^'x' is longer than the archive says$"):
        _fill(values, io.BytesIO(b"1234"), "x")
    with pytest.raises(EOFError, match=r"^'x' ends after 2 of 3 bytes$"):
        _fill(values, io.BytesIO(b"12"), "x")


def test_members_may_grow_beyond_4_gibibytes(path, monkeypatch):
    forced = []
    opened = zipfile.ZipFile.open

    def noted(*args, force_zip64=False, **named):
        forced.append(force_zip64)
        return opened(*args, force_zip64=force_zip64, **named)

    monkeypatch.setattr(zipfile.ZipFile, "open", noted)
    write_npz(path, {"x": np.zeros(3)})
    assert forced == [True]


def test_arrays_are_read_piece_by_piece(path, monkeypatch):
    write_npz(path, VALUES)
    for size in (1, 5):
        monkeypatch.setattr("vdla.runtime.arrays.PIECE_BYTES", size)
        assert {name: array.tolist() for name, array in read_npz(path).items()} == {
            name: array.tolist() for name, array in VALUES.items()
        }

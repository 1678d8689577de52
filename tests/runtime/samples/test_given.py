"""What a person may give as samples or inputs, and what is refused at once."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.test_exchange import Array, Dlpack, Interface
from vdla.hw.spec.errors import FileFormatError
from vdla.runtime.samples import InputError
from vdla.runtime.samples.files import KINDS
from vdla.runtime.samples.given import PASS, given_of

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def forms(given) -> list[tuple[dict[str, list], list[list]]]:
    """Return the named and the unnamed arrays of each entry, as lists of numbers."""
    return [
        (
            {name: array.tolist() for name, array in entry.named.items()},
            [array.tolist() for array in entry.unnamed],
        )
        for entry in given.entries
    ]


ALONE = {
    "an array": X,
    "DLPack": Dlpack(X),
    "__array__": Array(X),
    "__array_interface__": Interface(X),
    "numbers": X.tolist(),
    "numbers of NumPy": [list(row) for row in X],
}


@pytest.mark.parametrize("title", ALONE)
def test_one_array_is_an_unnamed_item(title):
    given = given_of(ALONE[title])
    assert forms(given) == [({}, [X.tolist()])]
    assert not given.listed


LISTS = {
    "arrays": ([X, X], [({}, [X.tolist()])] * 2),
    "one array": ([X], [({}, [X.tolist()])]),
    "a generator": ((X for _ in range(2)), [({}, [X.tolist()])] * 2),
    "mappings": ([{"a": X}, {"a": 1.0}], [({"a": X.tolist()}, []), ({"a": 1.0}, [])]),
    "pairs": ([(X, 1), [X, 2]], [({}, [X.tolist(), 1]), ({}, [X.tolist(), 2])]),
}


@pytest.mark.parametrize("title", LISTS)
def test_a_list_has_an_entry_for_each_sample(title):
    what, expected = LISTS[title]
    given = given_of(what)
    assert forms(given) == expected
    assert given.listed


def test_files_are_told_by_what_they_hold(tmp_path):
    np.savez(tmp_path / "s.npz", a=X, b=X[0])
    np.save(tmp_path / "s.npy", X)
    (tmp_path / "other.npz").write_bytes((tmp_path / "s.npy").read_bytes())
    assert forms(given_of(tmp_path / "s.npz")) == [({"a": X.tolist(), "b": X[0].tolist()}, [])]
    for name in ("s.npy", "other.npz"):
        assert forms(given_of(str(tmp_path / name))) == [({}, [X.tolist()])]
    assert forms(given_of({"a": tmp_path / "s.npy"})) == [({"a": X.tolist()}, [])]


def test_a_folder_has_an_entry_for_each_of_its_files_in_the_order_of_their_names(tmp_path):
    for number in (2, 0, 1):
        np.save(tmp_path / f"{number}.npy", X + number)
    (tmp_path / "README.txt").write_text("no sample")
    (tmp_path / "folder.npy").mkdir()
    given = given_of(tmp_path)
    assert forms(given) == [({}, [(X + number).tolist()]) for number in range(3)]
    assert given.listed


def test_the_files_of_a_folder_may_take_as_much_as_the_limit(tmp_path, monkeypatch):
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", X)
    size = 2 * (tmp_path / "0.npy").stat().st_size
    monkeypatch.setattr("vdla.runtime.samples.files.ARRAY_BYTES", size)
    assert len(given_of(tmp_path).entries) == 2
    monkeypatch.setattr("vdla.runtime.samples.files.ARRAY_BYTES", size - 1)
    with pytest.raises(InputError, match=f"^the samples in {tmp_path} take {size} bytes, and the limit is "):
        given_of(tmp_path)


def text_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("no sample")
    return folder / "notes.txt"


def two_arrays(folder: Path) -> dict[str, Path]:
    np.savez(folder / "two.npz", a=X, b=X)
    return {"x": folder / "two.npz"}


REFUSED = {
    "an object": (lambda _: object(), f"samples and inputs are not object; {PASS}"),
    "an object in a list": (lambda _: [X, object()], f"sample 1 is object; {PASS}"),
    "an empty list": (lambda _: [], f"an empty list of samples was given; {PASS}"),
    "no file": (lambda folder: folder / "none.npz", "none.npz cannot be read: No such file or directory"),
    "a text file": (text_file, f"notes.txt holds no arrays, no image and no sound; {KINDS} are read"),
    "an empty folder": (lambda folder: folder, f"is a folder without samples; {KINDS} are read"),
    "two arrays for an input": (two_arrays, "two.npz, which holds 2 arrays; name a file of a single one"),
    "another device": (lambda _: [X, Dlpack(X, kind=2)], "sample 1: the array is on device 0 of CUDA"),
    "ragged numbers": (lambda _: {"x": [[1.0], [1.0, 2.0]]}, "input x is not an array of numbers"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_what_is_no_sample_is_refused_on_one_line(title, tmp_path):
    make, message = REFUSED[title]
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        given_of(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_scale_without_an_image_is_refused():
    with pytest.raises(InputError, match="a scale for images is given, and no image"):
        given_of(X, "imagenet")


@pytest.mark.parametrize("place", [6, 9, 40, 100, 127, 130])
@pytest.mark.parametrize("kind", ["cut", "changed"])
def test_a_damaged_npy_file_is_refused_or_holds_numbers(tmp_path, place, kind):
    np.save(tmp_path / "x.npy", X)
    data = bytearray((tmp_path / "x.npy").read_bytes())
    data[place] ^= 0x10
    (tmp_path / "x.npy").write_bytes(data[:place] if kind == "cut" else data)
    said = refusal(tmp_path / "x.npy")
    assert said == "" or said.startswith(
        f"{tmp_path}/x.npy cannot be read as .npy; it is truncated or altered: "
    )


def refusal(path: Path) -> str:
    """Return what is said of a file; nothing of a file that is read."""
    try:
        given_of(path)
    except FileFormatError as error:
        return str(error)
    return ""


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([object()], object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="holds elements of type object, not numbers"):
        given_of(tmp_path / "x.npy")


def test_the_digest_covers_arrays_names_places_and_the_scale():
    scaled = given_of(X)
    unlike = [
        given_of(X),
        given_of([X]),
        given_of({"a": X}),
        given_of({"b": X}),
        given_of(X + 1),
        given_of(X[:1]),
    ]
    parts = [b"|".join(samples.parts()) for samples in unlike]
    assert len(set(parts)) == len(parts) - 1  # a list of one array is that array
    assert b"|".join(scaled.parts()) == parts[0]

"""Numbers of attributes; weights in external files: read in whole or in part, bounded, and refused with
their location."""

import os
import warnings

import numpy as np
import onnx
import pytest

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.onnx.tensors import shortest


def external(location: str):
    """Return a model whose weights are in a file."""
    proto = model([node("Add", "x w", "y")], {"x": [4]}, ["y"], {"w": np.arange(4, dtype=np.float32)})
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], location)
    proto.graph.initializer[0].ClearField("raw_data")
    return proto


def test_weights_in_a_file_beside_the_model_are_read(tmp_path):
    (tmp_path / "net.onnx").write_bytes(external("w.bin").SerializeToString())
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    np.testing.assert_array_equal(load(tmp_path / "net.onnx").constants["w"], [0, 1, 2, 3])


LOCATIONS = {
    "w.bin": "its file 'w.bin' is missing from ",
    "../w.bin": "its file '../w.bin' is not in the folder of the model",
    "/etc/passwd": "its file '/etc/passwd' is not in the folder of the model",
    "": "its file '' is not in the folder of the model",
    ".": "its file '.' is not in the folder of the model",
    "folder": "its file 'folder' is not a file",
    "folder/w.bin": "its file 'folder/w.bin' is missing from ",
    "loop": "its file 'loop' ",
    "outside": "its file 'outside' is not in the folder of the model",
    "net.onnx/w.bin": "its file 'net.onnx/w.bin' cannot be read: Not a directory",
    "w" * 300: "cannot be read: File name too long",
    "w/" * 3000: "cannot be read: File name too long",
    "w\0.bin": r"its file 'w\x00.bin' has a name with a NUL, which no file has",
    "w\n.bin": r"its file 'w\n.bin' is missing from ",
    "pipe": "its file 'pipe' is not a file",
    "short.bin": "its elements cannot be read: its file 'short.bin' has 5 bytes; "
    "5 from 0 on are named, and the tensor takes 16",
    "long.bin": "its elements cannot be read: its file 'long.bin' has 1099511627776 bytes; "
    "1099511627776 from 0 on are named, and the tensor takes 16",
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with files of every kind."""
    inner = tmp_path / "model"
    (inner / "folder").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (inner / "short.bin").write_bytes(b"short")
    (inner / "outside").symlink_to(tmp_path / "w.bin")
    (inner / "loop").symlink_to(inner / "loop")
    with (inner / "long.bin").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(inner / "pipe")
    return inner


@pytest.mark.parametrize("location", LOCATIONS, ids=lambda location: repr(location)[:20])
def test_weights_outside_the_folder_or_missing_are_refused(folder, location):
    (folder / "net.onnx").write_bytes(external(location).SerializeToString())
    with pytest.raises(GraphError) as caught:
        load(str(folder / "net.onnx"))
    head, problem = str(caught.value).split("\n")
    assert head == f"{folder}/net.onnx: cannot be imported, 1 problem:"
    assert problem.startswith("  initializer 'w': ")
    assert LOCATIONS[location] in problem
    assert len(problem) < 400


def entered(**entries: str):
    """Return a model whose weights are in the file w.bin, with more entries on where."""
    proto = external("w.bin")
    for key, value in entries.items():
        proto.graph.initializer[0].external_data.add(key=key, value=value)
    return proto


def test_weights_in_a_part_of_a_file_are_read(tmp_path):
    (tmp_path / "net.onnx").write_bytes(entered(offset="4096", length="16").SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(4096) + np.arange(4, dtype=np.float32).tobytes() + b"more")
    assert load(tmp_path / "net.onnx").constants["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "-4"},
        {"offset": "four"},
        {"offset": "9" * 5000},
        {"offset": "1"},
        {"offset": "99"},
        {"offset": "9" * 18, "length": "16"},
        {"length": "-1"},
        {"length": "15"},
        {"length": "17"},
        {"length": "9" * 5000},
        {"length": "9" * 18},
        {"length": ""},
        {"offset": "1.5"},
        {"offset": "4", "length": "16"},
    ],
)
def test_parts_that_a_file_does_not_have_are_refused(tmp_path, entries):
    (tmp_path / "net.onnx").write_bytes(entered(**entries).SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(16))
    message = r"initializer 'w': its elements cannot be read: its file 'w.bin' has "
    with pytest.raises(GraphError, match=message) as caught:
        load(tmp_path / "net.onnx")
    assert len(str(caught.value)) < 400


def test_weights_larger_than_the_limit_are_refused_before_they_are_read(tmp_path):
    proto = external("w.bin")
    proto.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 42)
    message = r"initializer 'w': with the constants before it, it takes 4398046511104 bytes, and the limit is 536870912; "
    with pytest.raises(GraphError, match=message):
        load(tmp_path / "net.onnx")


def test_weights_count_together(tmp_path):
    proto = model(
        [node("Sum", "x a b", "y")], {"x": [1]}, ["y"], dict.fromkeys("ab", np.zeros(1, np.float32))
    )
    tensor = proto.graph.initializer[1]
    onnx.external_data_helper.set_external_data(tensor, "w.bin")
    tensor.ClearField("raw_data")
    tensor.dims[:] = [1 << 27]
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 29)
    with pytest.raises(
        GraphError, match=r"initializer 'b': with the constants before it, it takes 536870916 bytes"
    ):
        load(tmp_path / "net.onnx")


def test_weights_in_a_file_need_the_models_path():
    with pytest.raises(
        GraphError, match=r"initializer 'w': its elements are in a file 'w.bin'; load the model by its path"
    ):
        load(external("w.bin").SerializeToString())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float32(0.1), 0.1), (0.1, 0.1), (1e39, np.inf), (-1e39, -np.inf), (1e-50, 0.0), (np.inf, np.inf)],
)
def test_a_number_is_written_with_few_digits_and_without_a_warning(value, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shortest(value) == expected

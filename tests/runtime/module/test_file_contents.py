"""Module files whose digest is right, and whose contents the compiler does not write: each is refused."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from tests.runtime.module.module_bytes import array, members, npz, refused, sealed, with_header
from vdla.runtime.module.file import MANIFEST, from_bytes, to_bytes


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("something was unpickled",)


@pytest.mark.parametrize("name", ["streams/launch0/words.npy", "streams/launch0/labels/0.npy"])
@pytest.mark.parametrize(
    "content",
    [
        array(np.array([Trap()]), allow_pickle=True),
        pickle.dumps(Trap()),
        npz(x=np.ones(1)),
        b"",
        b"\x93NUMPY\x01\x00",
        array(np.zeros((3, 3), np.float64)),
        array(np.array(7.5)),
    ],
)
def test_members_that_are_no_plain_arrays_are_refused(name, content):
    parts = members(to_bytes(handmade("with the host between")[1]))
    assert name in parts
    refused(sealed({**parts, name: content}))


WORDS, UOPS = (f"streams/launch0/{kind}.npy" for kind in ("words", "uops"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({WORDS: None}, "the array streams/launch0/words is missing; copy it again, or compile the network again"),
        ({"weights/0.npy": None}, "the array weights/0 is missing; copy it again, or compile the network again"),
        ({WORDS: np.array(7.5)}, "stream launch0 is float64[] with micro-ops uint32, not uint64[n, 2] and uint32"),
        ({WORDS: np.zeros(2, np.uint64)}, "stream launch0 is uint64[2] with micro-ops uint32, not "),
        ({WORDS: np.zeros((3, 2, 2), np.uint64)}, "stream launch0 is uint64[3, 2, 2] with micro-ops uint32, not "),
        ({WORDS: np.zeros((3, 2))}, "stream launch0 is float64[3, 2] with micro-ops uint32, not uint64[n, 2] "),
        ({UOPS: np.zeros(2, np.int32)}, " with micro-ops int32, not uint64[n, 2] and uint32"),
    ],
)  # fmt: skip
def test_an_array_that_is_missing_or_of_another_type_is_named(changes, message):
    parts = members(to_bytes(handmade("with the host between")[1]))
    changed = {name: None if values is None else array(values) for name, values in changes.items()}
    kept = {name: data for name, data in (parts | changed).items() if data is not None}
    assert changed.keys() <= parts.keys()
    assert message in refused(sealed(kept))


def test_a_manifest_is_read_up_to_its_limit(monkeypatch):
    data = to_bytes(handmade("with the host between")[1])
    size = len(members(data)[MANIFEST])
    monkeypatch.setattr("vdla.runtime.module.file.MANIFEST_BYTES", size)
    assert from_bytes(data).steps
    monkeypatch.setattr("vdla.runtime.module.file.MANIFEST_BYTES", size - 1)
    assert f"its manifest.json takes {size} bytes, and the limit is {size - 1}; " in refused(data)


def manifest_of(change: Callable[[dict], object]) -> bytes:
    """Return a module whose manifest has been changed."""
    parts = members(to_bytes(handmade("with the host between")[1]))
    manifest = json.loads(parts[MANIFEST])
    change(manifest)
    return sealed({**parts, MANIFEST: json.dumps(manifest).encode()})


def host(manifest: dict) -> dict:
    return next(step for step in manifest["steps"] if step["on"] == "host")


def launch(manifest: dict) -> dict:
    return next(step for step in manifest["steps"] if step["on"] == "accelerator")


CHANGES = {
    "its memory, clock or energies do not match the digest": lambda manifest: manifest["target"].update(
        clock_mhz=1.5
    ),
    "its configuration does not match the digest": lambda manifest: manifest["config"].update(batch=2),
    "batch = 3 is not a power of two": lambda manifest: manifest["config"].update(batch=3),
    "configuration parameter 'colour' is unknown": lambda manifest: manifest["config"].update(colour=3),
    "its manifest is not what a module's is: Object missing required field `steps`": lambda manifest: (
        manifest.pop("steps")
    ),
    "operator 'Explode' is unknown": lambda manifest: host(manifest).update(op="Explode"),
    "Transpose the Transpose has attributes none; it takes perm": lambda manifest: host(manifest).update(
        attributes={}
    ),
    "Transpose the Transpose reads 'gone', which is not there": lambda manifest: host(manifest).update(
        inputs=["gone"]
    ),
    "a step runs stream 'launch9', which is not there": lambda manifest: launch(manifest).update(
        stream="launch9"
    ),
    "launch0 takes in 'gone', which is not there": lambda manifest: launch(manifest)["packs"][0].update(
        value="gone"
    ),
    "x0 stands in tensor 'gone', which is not there": lambda manifest: launch(manifest)["packs"][0].update(
        tensor="gone"
    ),
    "x0 of shape (2, 2, 5) is 3 matrices of 1 rows at once": lambda manifest: launch(manifest)["packs"][0][
        "layout"
    ].update(shape=[2, 2, 5], stack=3),
    "x0 takes 800 bytes, and tensor": lambda manifest: launch(manifest)["packs"][0]["layout"].update(
        shape=[100, 5]
    ),
    "Expected `int` >= 1 - at `$.steps[0].packs[0].layout.block`": lambda manifest: launch(manifest)["packs"][
        0
    ]["layout"].update(block=0),
    "launch0 has a layer 'gone', which is not there": lambda manifest: launch(manifest)["layers"][0].update(
        label="gone"
    ),
    "the network gives out 'gone', which is not there": lambda manifest: manifest["outputs"][0].update(
        name="gone"
    ),
    "Expected `int` >= 1 - at `$.tensors[...]`": lambda manifest: manifest["tensors"].update(
        dict.fromkeys(manifest["tensors"], 0)
    ),
    "stream launch0 has tensor": lambda manifest: manifest.update(tensors={}),
    "Expected `array`, got `int` - at `$.steps[0].layers`": lambda manifest: manifest.update(
        steps=[{"on": "accelerator", "stream": "launch0", "packs": [], "unpacks": [], "layers": 3}]
    ),
}


@pytest.mark.parametrize("message", CHANGES)
def test_a_manifest_that_contradicts_itself_is_refused(message):
    assert message in refused(manifest_of(CHANGES[message]))


NO_MANIFESTS = {
    **dict.fromkeys(
        [b"", b"{", b"\xff", b"[" * 100_000, b'{"name": ' + b"9" * 5000],
        "its contents are not what they should be",
    ),
    b"[]": "its manifest is not what a module's is: Expected `object`, got `array`",
    b"null": "its manifest is not what a module's is: Expected `object`, got `null`",
    b'{"config": 3}': "its manifest is not what a module's is: Expected `object`, got `int` - at `$.config`",
}


@pytest.mark.parametrize("text", NO_MANIFESTS, ids=lambda text: repr(text[:20]))
def test_a_manifest_that_is_none_is_refused(text):
    assert NO_MANIFESTS[text] in refused(sealed({MANIFEST: text}))


def test_an_archive_that_is_none_is_refused():
    assert "its contents are not what they should be" in refused(with_header(b"no archive"))


def test_instructions_outside_a_stream_are_refused():
    _, plan = handmade("split")
    name, stream = next(iter(plan.streams.items()))
    label, positions = next(iter(stream.labels.items()))
    broken = replace(
        plan,
        streams={
            **plan.streams,
            name: replace(stream, labels={**stream.labels, label: positions + stream.count}),
        },
    )
    assert f"{label} has positions outside it" in refused(to_bytes(broken))


def test_streams_of_another_shape_are_refused():
    _, plan = handmade("split")
    name, stream = next(iter(plan.streams.items()))
    broken = replace(plan, streams={**plan.streams, name: replace(stream, words=stream.words[:, :1])})
    assert "not uint64[n, 2]" in refused(to_bytes(broken))

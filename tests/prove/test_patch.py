"""Changed bytes of streams: the right byte, and errors for others."""

import json

import numpy as np
import pytest

from tests.compiler.network.compiled import handmade
from vdla.hw.spec.errors import FileFormatError
from vdla.prove.patch import Patch, read_patches, with_patches

_, PLAN = handmade("several ends")
(LAUNCH, *_) = PLAN.launches
STREAM = PLAN.streams[LAUNCH.stream]
INSTRUCTION_BYTES, UOP_BYTES = STREAM.words.nbytes, STREAM.uops.nbytes
FORM = "a patch is a JSON list of [launch, byte offset, new value], as in [[0, 17, 255]]"


def everything(stream) -> bytes:
    return stream.words.tobytes() + stream.uops.tobytes()


@pytest.mark.parametrize(
    "offset", [0, 17, INSTRUCTION_BYTES - 1, INSTRUCTION_BYTES, INSTRUCTION_BYTES + UOP_BYTES - 1]
)
def test_a_patch_changes_one_byte_of_instructions_and_micro_ops(offset):
    before = everything(STREAM)
    value = before[offset] ^ 0x55
    changed = with_patches(PLAN, [Patch(0, offset, value)]).streams[LAUNCH.stream]
    expected = bytearray(before)
    expected[offset] = value
    assert everything(changed) == bytes(expected)
    assert changed.words.dtype == STREAM.words.dtype
    assert changed.words.shape == STREAM.words.shape
    assert everything(STREAM) == before


def test_the_last_of_several_patches_of_a_byte_counts_and_other_streams_stay():
    changed = with_patches(PLAN, [Patch(0, 3, 1), Patch(0, 3, 2), Patch(0, 4, 3)])
    assert everything(changed.streams[LAUNCH.stream])[3:5] == b"\2\3"
    others = [name for name in PLAN.streams if name != LAUNCH.stream]
    assert all(changed.streams[name] is PLAN.streams[name] for name in others)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (Patch(9, 0, 0), f"the patch changes launch 9, and {PLAN.name} has {len(PLAN.launches)} launches; they are numbered from 0"),
        (
            Patch(0, INSTRUCTION_BYTES + UOP_BYTES, 0),
            f"the patch changes byte {INSTRUCTION_BYTES + UOP_BYTES} of launch 0, which has {INSTRUCTION_BYTES} bytes of instructions and {UOP_BYTES} bytes of micro-ops after them; give a lower offset",
        ),
    ],
)  # fmt: skip
def test_a_patch_outside_the_streams_is_refused(patch, message):
    with pytest.raises(FileFormatError) as caught:
        with_patches(PLAN, [patch])
    assert str(caught.value) == message


def test_a_file_of_patches_is_read(tmp_path):
    (tmp_path / "p.json").write_text("[[0, 17, 255], [1, 2, 3]]")
    assert read_patches(tmp_path / "p.json") == (Patch(0, 17, 255), Patch(1, 2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[0, 17", "Expecting"),
        ('{"launch": 0}', "Expected `array`, got `object`"),
        ("[[0, 17]]", "Expected `array` of length 3"),
        ("[[0, 17, 256]]", "Expected `int` <= 255"),
        ("[[0, -1, 25]]", "Expected `int` >= 0"),
        ("[[0.5, 1, 25]]", "Expected `int`, got `float`"),
        ("[" * 100_000, ""),
        (json.dumps([[0, 1, 1 << 70]]), "Expected `int`"),
    ],
)
def test_a_file_that_is_no_list_of_patches_is_refused(text, message, tmp_path):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_patches(tmp_path / "p.json")
    assert str(caught.value).startswith(f"{tmp_path / 'p.json'} is not a stream patch: ")
    assert message in str(caught.value)
    assert str(caught.value).endswith(f"; {FORM}")


def test_a_file_of_other_bytes_is_refused(tmp_path):
    (tmp_path / "p.json").write_bytes(np.arange(256, dtype=np.uint8).tobytes())
    with pytest.raises(FileFormatError, match="is not a stream patch"):
        read_patches(tmp_path / "p.json")

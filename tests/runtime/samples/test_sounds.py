"""WAV files as samples: numbers, windows, and what is refused."""

import re
import wave

import numpy as np
import pytest

from vdla.hw.spec.errors import VdlaError
from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared
from vdla.runtime.samples.fit import Along, fit
from vdla.runtime.samples.given import given_of
from vdla.runtime.samples.sounds import Sound, read_sound

COUNT = 1000
WAVES = np.random.default_rng(0).uniform(-1, 1, COUNT)


def written(path, bits=16, channels=1):
    """Write WAVES as PCM; return them as the file holds them."""
    limit = 1 << (bits - 1)
    values = np.clip(np.round(WAVES * limit), -limit, limit - 1).astype(np.int64)
    stored = values + 128 if bits == 8 else values
    data = np.repeat(stored, channels).astype("<i8").reshape(-1, 1).view(np.uint8)[:, : bits // 8].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(bits // 8)
        file.setframerate(16000)
        file.writeframes(data)
    return values / limit


def fitted(path, shape, dtype="float32"):
    return fit(given_of(path), {"x": Declared(shape, dtype)})


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("shape", [(None,), (1, None), (1, 1, COUNT)])
def test_values_are_between_minus_one_and_one(tmp_path, bits, shape):
    values = written(tmp_path / "s.wav", bits)
    fit = fitted(tmp_path / "s.wav", shape)
    np.testing.assert_array_equal(fit.samples[0]["x"].reshape(-1), values.astype(np.float32))
    assert fit.samples[0]["x"].ndim == len(shape)
    assert fit.notes == (f"{tmp_path}/s.wav: 16000 Hz, 1 window of 1000",)
    assert fit.along is Along.ALONE


def test_an_input_of_fixed_length_takes_windows_and_the_rest_is_told(tmp_path):
    values = written(tmp_path / "s.wav")
    fit = fitted(tmp_path / "s.wav", (1, 300))
    assert fit.notes == (f"{tmp_path}/s.wav: 16000 Hz, 3 windows of 300, 100 values at the end left out",)
    joined = np.concatenate([sample["x"][0] for sample in fit.samples])
    np.testing.assert_array_equal(joined, values[:900].astype(np.float32))
    assert fit.along is Along.BATCH


def test_an_input_of_the_file_s_integers_takes_them(tmp_path):
    values = written(tmp_path / "s.wav")
    integers = fitted(tmp_path / "s.wav", (COUNT,), "int16").samples[0]["x"]
    np.testing.assert_array_equal(integers, (values * (1 << 15)).astype(np.int16))


REFUSED = {
    "two channels": (
        {"channels": 2},
        (1, None),
        "float32",
        "has 2 channels of 1000 values, and input x takes one of any number of values; mix its channels",
    ),
    "too short": (
        {},
        (1, 2000),
        "float32",
        "has 1 channel of 1000 values, and input x takes one of 2000; mix its",
    ),
    "a number": (
        {},
        (),
        "float32",
        "is a recording, and input x takes float32[], which is no row of numbers",
    ),
    "two rows": ({}, (2, COUNT), "float32", "input x takes float32[2, 1000], which is no row of numbers"),
    "an image's input": (
        {},
        (1, 3, 8, 8),
        "float32",
        "is a recording, and input x takes float32[1, 3, 8, 8], which is",
    ),
    "other integers": ({"bits": 24}, (COUNT,), "int16", "has values of 24 bits, and input x takes int16"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_recordings_that_do_not_fit_are_refused(tmp_path, title):
    options, shape, dtype, message = REFUSED[title]
    written(tmp_path / "s.wav", **options)
    with pytest.raises(InputError, match=re.escape(message)):
        fitted(tmp_path / "s.wav", shape, dtype)


def test_a_recording_of_nothing_is_too_short(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.WAVES", WAVES[:0])
    written(tmp_path / "s.wav")
    with pytest.raises(InputError, match="has 1 channel of 0 values, and input x takes one of any number of"):
        fitted(tmp_path / "s.wav", (1, None))


def test_damaged_recordings_are_refused_or_read(tmp_path):
    written(tmp_path / "s.wav")
    whole = (tmp_path / "s.wav").read_bytes()
    for place in (*range(4, 60), 500):
        broken = bytearray(whole)
        broken[place] ^= 0x81
        for data in (bytes(broken), whole[:place]):
            (tmp_path / "b.wav").write_bytes(data)
            assert "\n" not in refusal(tmp_path / "b.wav")


def refusal(path) -> str:
    """Return what is said of a file; nothing of a file that is read."""
    try:
        given_of(path)
    except VdlaError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("length", "windows", "left"), [(1000, 1, 0), (999, 1, 1), (500, 2, 0), (1, 1000, 0)]
)
def test_windows_follow_on_each_other(tmp_path, length, windows, left):
    values = written(tmp_path / "s.wav")
    fit = fitted(tmp_path / "s.wav", (1, length))
    assert len(fit.samples) == windows
    assert fit.along is (Along.ALONE if windows == 1 else Along.BATCH)
    joined = np.concatenate([sample["x"][0] for sample in fit.samples])
    np.testing.assert_array_equal(joined, values[: COUNT - left].astype(np.float32))
    end = f", {left} values at the end left out" if left else ""
    plural = "s" if windows > 1 else ""
    assert fit.notes == (f"{tmp_path}/s.wav: 16000 Hz, {windows} window{plural} of {length}{end}",)


def test_a_recording_that_is_one_value_too_short_is_refused(tmp_path):
    written(tmp_path / "s.wav")
    with pytest.raises(InputError, match="has 1 channel of 1000 values, and input x takes one of 1001; mix"):
        fitted(tmp_path / "s.wav", (1, 1001))


def test_a_frame_that_is_cut_is_left_out():
    header = b"RIFF" + (36 + 5).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    form = b"".join(
        value.to_bytes(size, "little")
        for value, size in ((1, 2), (1, 2), (8000, 4), (16000, 4), (2, 2), (16, 2))
    )
    sound = read_sound("s", header + form + b"data" + (5).to_bytes(4, "little") + bytes([1, 0, 255, 255, 9]))
    assert (sound.values.tolist(), sound.bits, sound.rate) == ([[1], [-1]], 16, 8000)


def test_what_a_recording_means_is_its_values_their_bits_and_their_rate():
    values = np.array([[1], [2]], np.int32)
    sounds = [
        Sound("a", values, 16, 8000),
        Sound("a", values + 1, 16, 8000),
        Sound("a", values.reshape(1, 2), 16, 8000),
        Sound("a", values, 24, 8000),
        Sound("a", values, 16, 8001),
    ]
    assert len({sound.data() for sound in sounds}) == len(sounds)
    assert Sound("b", values, 16, 8000).data() == sounds[0].data()

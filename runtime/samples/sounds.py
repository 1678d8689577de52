"""Sound as inputs: WAV files, as numbers from -1 to 1, cut into windows of an input's length."""

import io
import wave
from dataclasses import dataclass

import numpy as np

from vdla.runtime.arrays import UNREADABLE
from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared


@dataclass(frozen=True, slots=True)
class Sound:
    """A recording.

    Attributes:
        source: what messages call it.
        values: int32[n, channels].
        bits: of each value.
        rate: values of a channel in a second.
    """

    source: str
    values: np.ndarray
    bits: int
    rate: int

    def data(self) -> bytes:
        """Return everything that it means."""
        return f"{self.bits} {self.rate} {self.values.shape} ".encode() + self.values.tobytes()


def read_sound(source: str, data: bytes) -> Sound:
    """Return the recording in the contents of a WAV file.

    Raises:
        InputError: it is damaged, or holds something else than PCM.
    """
    try:
        with wave.open(io.BytesIO(data), "rb") as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (*UNREADABLE, wave.Error) as error:
        raise InputError(
            f"{source} cannot be read as WAV: {error or 'it is cut short'}; 8, 16, 24 or 32 bits of PCM are "
            "read"
        ) from error
    if not channels or width not in (1, 2, 3, 4):
        raise InputError(
            f"{source} has {channels} channels of {8 * width} bits; 8 to 32 bits of PCM are read"
        )
    whole = len(frames) // (width * channels) * width * channels
    return Sound(source, _integers(frames[:whole], width).reshape(-1, channels), 8 * width, rate)


def _integers(data: bytes, width: int) -> np.ndarray:
    """Return int32[n] of little-endian integers of `width` bytes; integers of one byte are unsigned, 128
    is 0."""
    if width == 1:
        return np.frombuffer(data, np.uint8).astype(np.int32) - 128
    padded = np.zeros((len(data) // width, 4), np.uint8)
    padded[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
    return padded.view("<i4")[:, 0] >> (32 - 8 * width)


def windows_of(sound: Sound, who: str, declared: Declared) -> tuple[list[np.ndarray], str]:
    """Return a recording as samples of an input, and what had to be done for that.

    An input of fixed length takes windows that follow on each other; the rest at the end is left out.

    Raises:
        InputError: the input is none for sound, or the recording has several channels or is too short.
    """
    shape = declared.shape or ()
    if not shape or any(extent not in (None, 1) for extent in shape[:-1]):
        raise InputError(
            f"{sound.source} is a recording, and {who} takes {declared}, which is no row of numbers"
        )
    count, channels = sound.values.shape
    length = shape[-1] or count
    if channels != 1 or not 0 < length <= count:
        raise InputError(
            f"{sound.source} has {channels} channel{'s' * (channels != 1)} of {count} values, and {who} "
            f"takes one of {'any number of values' if shape[-1] is None else length}; mix its channels, or "
            "record more"
        )
    values = _scaled(sound, who, declared)
    rows = values[: count // length * length].reshape(-1, *(1 for _ in shape[:-1]), length)
    left = f", {count % length} values at the end left out" if count % length else ""
    note = f"{sound.source}: {sound.rate} Hz, {len(rows)} window{'s' * (len(rows) != 1)} of {length}{left}"
    return list(rows), note


def _scaled(sound: Sound, who: str, declared: Declared) -> np.ndarray:
    """Return the values of the only channel: real numbers from -1 to 1, or integers of the file's bits."""
    mono = sound.values.ravel()
    if declared.dtype.startswith("float"):
        return (mono / np.float64(1 << (sound.bits - 1))).astype(np.float32)
    if declared.dtype == f"int{sound.bits}":
        return mono.astype(declared.dtype)
    raise InputError(f"{sound.source} has values of {sound.bits} bits, and {who} takes {declared.dtype}")

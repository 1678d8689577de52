"""Samples and inputs: arrays, images and recordings, damaged byte by byte."""

import io
import wave
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from fuzzing.archives import saved
from fuzzing.networks import images
from fuzzing.steps import Step
from fuzzing.values import changed_bytes
from vdla.runtime.samples.declared import Declared
from vdla.runtime.samples.fit import fit
from vdla.runtime.samples.given import given_of
from vdla.runtime.samples.images import Picture
from vdla.runtime.samples.sounds import Sound

MODES, FORMATS = ("RGB", "L", "P", "RGBA", "LA"), ("PNG", "BMP", "JPEG")
OPAQUE = ("RGB", "L")  # modes that every format holds
WIDTHS = (1, 2, 3, 4)  # bytes of a recording's values


@cache
def seeds() -> tuple[tuple[bytes, str], ...]:
    """Return whole files, each with the end of its name."""
    rng = np.random.default_rng(0)
    shape = [dim.dim_value for dim in images().graph.input[0].type.tensor_type.shape.dim]
    arrays = [rng.normal(size=(count, *shape[1:])).astype(np.float32) for count in (1, 3)]
    files = [(saved(array), "npy") for array in (*arrays, arrays[0].astype(np.float64), arrays[0][0])]
    pixels = Image.fromarray(rng.integers(0, 256, (9, 12, 3), np.uint8))
    for kind in FORMATS:
        for mode in MODES if kind == "PNG" else OPAQUE:
            written = io.BytesIO()
            pixels.convert(mode).save(written, kind)
            files.append((written.getvalue(), kind.lower()))
    return (*files, *((_recording(width), "wav") for width in WIDTHS))


def _recording(width: int) -> bytes:
    """Return a WAV file."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(bytes(range(240)))
    return written.getvalue()


def sample(rng: Random) -> tuple[bytes, str]:
    """Return a file of samples."""
    data, end = rng.choice(seeds())
    return (changed_bytes(data, rng) if rng.random() < 0.95 else data), end


def steps(rng: Random) -> tuple[Step, ...]:
    """Return what meets a file of samples: an input that takes its kind, or a network that may not."""
    fitted = Step(("fit", "FILE"), call=_fitted)
    return (rng.choice((fitted, Step(("run", "NET.vdla", "--input", "FILE")))),)


def _fitted(path: Path) -> object:
    """Fit a file to an input that takes its kind."""
    given = given_of(path)
    match given.entries[0].items[0]:
        case Picture():
            declared = Declared((1, 3, None, None), "uint8")
        case Sound():
            declared = Declared((1, None), "float32")
        case array:
            declared = Declared((None,) * array.ndim, "float32", ("N",) * array.ndim, is_batch=True)
    return fit(given, {"x": declared})

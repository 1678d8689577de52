"""Images as inputs: files read by Pillow, scaled to an input's size and range of numbers."""

import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vdla.hw.spec.extras import require_package
from vdla.hw.spec.limits import ARRAY_BYTES, require_room
from vdla.hw.spec.showing import short, shown
from vdla.runtime.arrays import UNREADABLE
from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "BMP")
MODES = {3: "RGB", 1: "L", 4: "RGBA"}
"""What Pillow calls an image of so many channels; the most usual first."""
BYTES_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "La", "RGBa")
"""Modes of eight bits for each channel, or fewer."""
WHITE = 255.0


@dataclass(frozen=True, slots=True)
class Scale:
    """What turns pixels into real numbers: `(pixel - mean) / std`, with pixels from 0 to 255.

    Attributes:
        mean, std: one number, or one for each channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def of(self, pixels: np.ndarray, source: str) -> np.ndarray:
        """Return float32[height, width, channels] of uint8[height, width, channels].

        Raises:
            InputError: there are numbers for another count of channels.
        """
        channels = pixels.shape[-1]
        for kind, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, channels):
                raise InputError(
                    f"{source}: the image's {kind} has {len(numbers)} numbers, and the input has {channels} "
                    f"channel{'s' * (channels != 1)}; give {' or '.join(map(str, sorted({1, channels})))}"
                )
        scaled = (pixels - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return scaled.astype(np.float32)


def scale_from(mean: Sequence[float], std: Sequence[float]) -> Scale:
    """Return the scale by a mean and a standard deviation: of pixels from 0 to 255 if any of the numbers is
    above 1, else of pixels from 0 to 1.

    Raises:
        InputError: a number is not finite, or a deviation is not positive.
    """
    if not mean or not std or not np.isfinite([*mean, *std]).all() or min(std) <= 0:
        raise InputError(
            f"the image's mean {_listed(mean)} and std {_listed(std)} must be finite numbers, std above 0"
        )
    unit = 1.0 if max(*mean, *std) > 1 else WHITE
    return Scale(tuple(unit * number for number in mean), tuple(unit * number for number in std))


PRESETS = {
    "imagenet": scale_from((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": scale_from((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "unit": Scale((0.0,), (WHITE,)),
    "signed": Scale((WHITE / 2,), (WHITE / 2,)),
    "raw": Scale((0.0,), (1.0,)),
}
"""Usual scales: of torchvision's and CLIP's networks, 0 to 1, -1 to 1, and 0 to 255."""


def scale_of(given: object) -> Scale | None:
    """Return the scale of a preset's name, or of a pair of mean and standard deviation.

    Raises:
        InputError: there is no such preset, or the pair is none.
    """
    match given:
        case None | Scale():
            return given
        case str() if given in PRESETS:
            return PRESETS[given]
        case (mean, std):
            return scale_from(_numbers(mean), _numbers(std))
    raise InputError(
        f"an image's scale is one of {', '.join(PRESETS)}, or a pair of mean and std, not {shown(given)}"
    )


def _numbers(given: object) -> tuple[float, ...]:
    """Return a number, or several, as floats."""
    try:
        return tuple(map(float, np.asarray(given, np.float64).reshape(-1)))
    except (TypeError, ValueError) as error:
        raise InputError(f"an image's mean and std are numbers, not {shown(given)}") from error


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers) or "nothing"


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as its file holds it.

    Attributes:
        source: what messages call it.
    """

    source: str
    image: "Image"

    @property
    def text(self) -> str:
        """What it is, for messages."""
        return f"an image of {self.image.width} x {self.image.height} pixels"

    def data(self) -> bytes:
        """Return everything that it means."""
        return f"{self.image.mode} {self.image.size} ".encode() + self.image.convert("RGBA").tobytes()


def read_picture(source: str, data: bytes) -> Picture:
    """Return the image in a file's contents, turned as its camera was held.

    Raises:
        InputError: it is damaged, too large, or has more than eight bits for each channel.
        ToolError: Pillow is not installed.
    """
    require_package("PIL", "reading an image", "pass its pixels as an array")
    from PIL import Image

    with _no_damage(source), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large images: the limit below refuses them
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        size = image.width * image.height * 4
        require_room(size, ARRAY_BYTES, f"{source} is not unpacked: its pixels take", InputError)
        return _picture(source, image)


def is_picture(what: object) -> bool:
    """Whether something is an image of Pillow, PIL.Image."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(what, pillow.Image)


def picture_of(image: "Image", where: str) -> Picture:
    """Return an image of Pillow, which may not have been read from its file yet, as an image of a file.

    Args:
        where: what stands before the words "the image" in messages about an image without a file.

    Raises:
        InputError: it is damaged, or has more than eight bits for each channel.
    """
    source = str(getattr(image, "filename", "")) or f"{where}the image"
    with _no_damage(source):
        return _picture(source, image)


@contextmanager
def _no_damage(source: str) -> Iterator[None]:
    """Raise errors of Pillow as an InputError."""
    from PIL import Image

    try:
        yield
    except (*UNREADABLE, OSError, Image.DecompressionBombError) as error:
        reason = short(" ".join(str(error).split()), 200)
        raise InputError(
            f"{source} cannot be read as an image; it is truncated or altered: {reason}"
        ) from error


def _picture(source: str, image: "Image") -> Picture:
    """Return an image, turned as its camera was held."""
    from PIL import ImageOps

    turned = ImageOps.exif_transpose(image)  # which reads all pixels
    if turned.mode not in BYTES_MODES:
        raise InputError(
            f"{source} has pixels of mode {turned.mode}, and eight bits for each channel are read; convert "
            "it, or pass its pixels as an array"
        )
    return Picture(source, turned)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an input has an image's axes.

    Attributes:
        channels, height, width: extents; None where they are open.
        first: channels stand before rows.
    """

    channels: int
    height: int | None
    width: int | None
    first: bool


def pixels_of(picture: Picture, who: str, declared: Declared, scale: Scale | None) -> tuple[np.ndarray, str]:
    """Return an image as a sample of an input, and what had to be done for that.

    An image of another size is scaled until it covers the input, and cropped at its centre.

    Args:
        who: the input, as messages call it.
        scale: what turns pixels into real numbers.

    Returns:
        An array of the input's shape, float32, or uint8 where the input takes that; and a note, or "".

    Raises:
        InputError: the input is none for images, or the scale is missing or not needed.
    """
    from PIL import Image, ImageOps

    _check_scale(picture, who, declared, scale)
    place = _place_of(picture, who, declared)
    image, note = picture.image.convert(MODES[place.channels]), ""
    size = place.width or image.width, place.height or image.height
    if size != image.size:
        note = f"{picture.source}: {picture.text} was scaled and cropped to {size[0]} x {size[1]}"
        image = ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    pixels = np.asarray(image).reshape(*image.size[::-1], place.channels)
    values = pixels if scale is None else scale.of(pixels, picture.source)
    if place.first:
        values = np.moveaxis(values, -1, 0)
    assert declared.shape is not None, "an input without a rank has no place for an image"
    rank = len(declared.shape)
    return values[..., 0] if rank == 2 else values[None] if rank == 4 else values, note


def _check_scale(picture: Picture, who: str, declared: Declared, scale: Scale | None) -> None:
    if scale is None and declared.dtype != "uint8":
        raise InputError(
            f"{picture.source} has pixels from 0 to 255, and {who} takes {declared.dtype}; say which "
            "numbers the "
            "network was trained on: --image-preset imagenet, clip, unit (0 to 1), signed (-1 to 1) or raw "
            "(0 to 255), or --image-mean and --image-std; in Python image_scale=..."
        )
    if scale is not None and not declared.dtype.startswith("float"):
        raise InputError(
            f"{who} takes {declared.dtype}, so {picture.source} cannot be scaled to real numbers; leave out "
            "the "
            "image's preset, mean and std"
        )


def _place_of(picture: Picture, who: str, declared: Declared) -> _Place:
    """Return where an input has channels, rows and columns."""
    shape = declared.shape or ()
    if len(shape) == 2:
        return _Place(1, shape[0], shape[1], False)
    if len(shape) == 3 or (len(shape) == 4 and shape[0] in (None, 1)):
        first, middle, last = shape[-3:]
        for channels in MODES:
            if first == channels:
                return _Place(channels, middle, last, True)
            if last == channels:
                return _Place(channels, first, middle, False)
    raise InputError(
        f"{picture.source} is an image, and {who} takes {declared}, which has no axis of 1, 3 or 4 channels "
        "beside rows and columns; pass an array, or give the shape if it is open (--shape)"
    )

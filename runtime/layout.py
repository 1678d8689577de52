"""The blocked layout in which the accelerator keeps activations: [n / batch, c / block, h, w, batch, block].

Tensors of four dimensions are images [n, c, h, w]. Others are matrices of rows [..., c]: row r stands as the
pixel (r // batch, 0) of image r % batch, so that a product of matrices is a 1x1 convolution. Matrices may
stand one behind another, as a stack.
"""

from math import prod
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from vdla.runtime.borders import bordered
from vdla.runtime.windows import Windows

IMAGE_RANK = 4

Extent = Annotated[int, Meta(ge=1, lt=1 << 31)]
Shape = Annotated[tuple[Extent, ...], Meta(max_length=16)]
Padding = Annotated[int, Meta(gt=-1 << 31, lt=1 << 31)]


def blocked(values: np.ndarray, block: int, batch: int) -> np.ndarray:
    """Return [n, c, h, w] as [n / batch, c / block, h, w, batch, block], padded with zeros."""
    n, c, height, width = values.shape
    whole = bordered(values, ((0, -n % batch), (0, -c % block), (0, 0), (0, 0)))
    parts = whole.reshape(whole.shape[0] // batch, batch, whole.shape[1] // block, block, height, width)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 1, 3))


def unblocked(values: np.ndarray, n: int, c: int) -> np.ndarray:
    """Return [n / batch, c / block, h, w, batch, block] as [n, c, h, w], without the padding."""
    outer, inner, height, width, batch, block = values.shape
    return np.ascontiguousarray(
        values.transpose(0, 4, 1, 5, 2, 3).reshape(outer * batch, inner * block, height, width)[:n, :c]
    )


class SpaceToDepth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Space to depth: the pixels of one stride of a convolution become channels of one pixel.

    Attributes:
        stride: (vertical, horizontal): pixels that are gathered.
        pads: pixels added above, left, below and right before; negative values below and right crop.
        border: value of the added pixels.
    """

    stride: tuple[Extent, Extent]
    pads: tuple[Padding, Padding, Padding, Padding]
    border: Annotated[int, Meta(ge=-128, le=127)] = 0

    def shape(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return the shape of an image [n, c, h, w] after this; `stride` divides its sides with their
        borders."""
        n, c, height, width = shape
        (sy, sx), (top, left, below, right) = self.stride, self.pads
        return n, c * sy * sx, (height + top + below) // sy, (width + left + right) // sx

    def apply(self, image: np.ndarray) -> np.ndarray:
        """Return an image of gathered pixels: channel (y * stride[1] + x) * c + k is channel k of the pixel
        (y, x) of those gathered."""
        (sy, sx), (top, left, below, right) = self.stride, self.pads
        used = image[..., : image.shape[2] + min(below, 0), : image.shape[3] + min(right, 0)]
        widths = ((0, 0), (0, 0), (top, max(below, 0)), (left, max(right, 0)))
        whole = bordered(used, widths, self.border)
        n, c, height, width = whole.shape
        parts = whole.reshape(n, c, height // sy, sy, width // sx, sx).transpose(0, 3, 5, 1, 2, 4)
        return parts.reshape(self.shape(image.shape))


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of a tensor in the accelerator's DRAM.

    Attributes:
        shape: of the tensor, int8.
        block: channels that stand together: the accelerator's block_in or block_out; with a batch of 1 mostly
            the larger of both, whose parts are elements of the other.
        batch: images, or rows, of an element.
        space_to_depth: which pixels are gathered before; None where none are.
        windows: how packed pixels are read, where they stand in no blocks.
        stack: into how many matrices the rows of [..., c] are divided, in order, which stand one behind
            another as images do; `batch` is 1 then. 0: images are images, others one matrix.
    """

    shape: Shape
    block: Extent
    batch: Extent
    space_to_depth: SpaceToDepth | None = None
    windows: Windows | None = None
    stack: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0

    @property
    def image(self) -> tuple[int, int, int, int]:
        """The shape of the image [n, c, h, w] that is kept."""
        if self.space_to_depth is not None:
            return self.space_to_depth.shape(self.shape)
        if self.windows is not None:
            n, _, height, _ = self.shape
            return n, self.block, self.windows.rows(height), self.windows.columns
        if self.stack:
            return self.stack, self.shape[-1], prod(self.shape[:-1]) // self.stack, 1
        if len(self.shape) == IMAGE_RANK:
            n, c, height, width = self.shape
            return n, c, height, width
        rows = prod(self.shape[:-1])
        return self.batch, self.shape[-1], -(-rows // self.batch), 1

    @property
    def blocks(self) -> tuple[int, ...]:
        """The extents in DRAM."""
        n, c, height, width = self.image
        return -(-n // self.batch), -(-c // self.block), height, width, self.batch, self.block

    @property
    def size(self) -> int:
        """Bytes in DRAM."""
        if self.windows is not None:
            n, _, rows, _ = self.image
            return n * rows * self.windows.pitch
        return prod(self.blocks)

    def pack(self, values: np.ndarray) -> np.ndarray:
        """Return int8[blocks] of int8[shape]; of windows, the packed rows."""
        if self.windows is not None:
            return self.windows.pack(values)
        if self.space_to_depth is not None:
            return blocked(self.space_to_depth.apply(values), self.block, self.batch)
        if self.stack:
            matrices = values.reshape(self.stack, -1, self.shape[-1])
            return blocked(matrices.transpose(0, 2, 1)[..., None], self.block, self.batch)
        if len(self.shape) == IMAGE_RANK:
            return blocked(values, self.block, self.batch)
        rows = values.reshape(-1, self.shape[-1])
        whole = bordered(rows, ((0, -len(rows) % self.batch), (0, 0)))
        whole = whole.reshape(-1, self.batch, self.shape[-1])
        return blocked(whole.transpose(1, 2, 0)[..., None], self.block, self.batch)

    def unpack(self, values: np.ndarray) -> np.ndarray:
        """Return int8[shape] of the bytes that stand in DRAM; gathered or packed pixels are never read
        back."""
        n, c, *_ = self.image
        image = unblocked(values.view(np.int8).reshape(self.blocks), n, c)
        if self.stack:
            return np.ascontiguousarray(image[..., 0].transpose(0, 2, 1).reshape(self.shape))
        if len(self.shape) == IMAGE_RANK:
            return image
        rows = image[..., 0].transpose(2, 0, 1).reshape(-1, c)
        return np.ascontiguousarray(rows[: prod(self.shape[:-1])].reshape(self.shape))

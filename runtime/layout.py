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


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of a tensor in the accelerator's DRAM.

    Attributes:
        shape: of the tensor, int8.
        block: channels that stand together: the accelerator's block_in or block_out; with a batch of 1 mostly
            the larger of both, whose parts are elements of the other.
        batch: images, or rows, of an element.
        windows: the windows of packed lines that are stored in place of pixels; None where pixels are.
        stack: into how many matrices the rows of [..., c] are divided, in order, which stand one behind
            another as images do; `batch` is 1 then. 0: images are images, others one matrix.
    """

    shape: Shape
    block: Extent
    batch: Extent
    windows: Windows | None = None
    stack: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    interleaved: bool = False

    @property
    def image(self) -> tuple[int, int, int, int]:
        """The shape of the image [n, c, h, w] that is kept."""
        if self.windows is not None:
            windows = self.windows
            return self.shape[0], windows.elements * self.block, windows.lines, windows.columns
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
        if self.windows is not None and self.windows.pitch:
            return self.shape[0] * self.windows.lines * self.windows.pitch
        return prod(self.blocks)

    def pack(self, values: np.ndarray) -> np.ndarray:
        """Return int8[blocks] of int8[shape]; the packed lines of an image, if these are stored."""
        if self.windows is not None and self.windows.pitch:
            return np.ascontiguousarray(self.windows.packed(values, self.block))
        if self.windows is not None:
            return blocked(self.windows.apply(values, self.block), self.block, self.batch)
        if self.stack:
            order = (-1, self.stack) if self.interleaved else (self.stack, -1)
            matrices = values.reshape(*order, self.shape[-1])
            matrices = matrices.swapaxes(0, 1) if self.interleaved else matrices
            return blocked(matrices.transpose(0, 2, 1)[..., None], self.block, self.batch)
        if len(self.shape) == IMAGE_RANK:
            return blocked(values, self.block, self.batch)
        rows = values.reshape(-1, self.shape[-1])
        whole = bordered(rows, ((0, -len(rows) % self.batch), (0, 0)))
        whole = whole.reshape(-1, self.batch, self.shape[-1])
        return blocked(whole.transpose(1, 2, 0)[..., None], self.block, self.batch)

    def unpack(self, values: np.ndarray) -> np.ndarray:
        """Return int8[shape] of the bytes that stand in DRAM; windows are never read back."""
        return self.arranged(values.view(np.int8))

    def arranged(self, values: np.ndarray) -> np.ndarray:
        """Return an array of the tensor's shape, of one number for each byte of the tensor in DRAM."""
        n, c, *_ = self.image
        image = unblocked(values.reshape(self.blocks), n, c)
        if self.stack:
            order = (2, 0, 1) if self.interleaved else (0, 2, 1)
            return np.ascontiguousarray(image[..., 0].transpose(order).reshape(self.shape))
        if len(self.shape) == IMAGE_RANK:
            return image
        rows = image[..., 0].transpose(2, 0, 1).reshape(-1, c)
        return np.ascontiguousarray(rows[: prod(self.shape[:-1])].reshape(self.shape))

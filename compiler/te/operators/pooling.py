"""Max pooling. Average pooling is a convolution, see `sizes.average_pool`."""

from dataclasses import dataclass

from vdla.compiler.ir.nodes import cast
from vdla.compiler.te.operators.convolution import with_border
from vdla.compiler.te.operators.narrowing import LEAST
from vdla.compiler.te.operators.sizes import Pooling, blocks
from vdla.compiler.te.tensor import Tensor, compute, max_over, placeholder, reduce_axis
from vdla.hw.spec.config import AcceleratorConfig


@dataclass(frozen=True)
class MaxPoolTensors:
    """The tensors of a max pooling, producers first.

    Attributes:
        inp: placeholder of the input, int8.
        wide: the padded input, widened to accumulators.
        greatest: the maximum of each window, in accumulators.
        out: the result, int8.
    """

    inp: Tensor
    wide: Tensor
    greatest: Tensor
    out: Tensor


def max_pool(size: Pooling, config: AcceleratorConfig) -> MaxPoolTensors:
    """Define max pooling of int8[n / batch, c / block_out, h, w, batch, block_out].

    The result is int8[n / batch, c / block_out, oh, ow, batch, block_out]. The padding is the least value of
    int8.

    Source: ONNX operator MaxPool.
    """
    b, o, acc = config.batch, config.block_out, f"int{config.acc_bits}"
    inp = placeholder(
        (blocks(size.batch, b), blocks(size.channels, o), size.height, size.width, b, o), "X", "int8"
    )
    wide = (
        with_border(inp, size, LEAST, "XW", acc)
        if any(size.padding)
        else compute(inp.shape, lambda n, c, y, x, b, k: cast(acc, inp[n, c, y, x, b, k]), "XW")
    )
    dy, dx = reduce_axis(size.kernel[0], "dy"), reduce_axis(size.kernel[1], "dx")
    (sy, sx), shape = size.stride, (*inp.shape[:2], *size.out_size, b, o)
    greatest = compute(
        shape,
        lambda n, c, y, x, b, j: max_over(wide[n, c, y * sy + dy, x * sx + dx, b, j], (dy, dx), start=LEAST),
        "Y",
    )
    return MaxPoolTensors(
        inp,
        wide,
        greatest,
        compute(shape, lambda n, c, y, x, b, j: cast("int8", greatest[n, c, y, x, b, j]), "Z"),
    )

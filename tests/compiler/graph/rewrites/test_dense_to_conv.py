"""Products of one row that read a whole image become convolutions."""

import pytest

from tests.compiler.graph.passes.golden import check_text
from vdla.compiler.graph.rewrites.conversions import DENSE_TO_CONVOLUTION

TEXTS = {
    "Flatten and Reshape; the result keeps its shape": (
        """\
def f(x: int8[1, 2, 1, 2]):
    a: int8[1, 4] = Flatten(x, axis=1)
    w: int8[4, 3] = constant([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 3] = Int8MatMul(a, w, p, name="fc")
    b: int8[4] = Reshape(x, shape=(4,))
    z: int8[3] = Int8MatMul(b, w, p)
    return y, z
""",
        """\
def f(x: int8[1, 2, 1, 2]):
    y_kernels: int8[3, 2, 1, 2] = constant([[[[1, 4]], [[7, 10]]], [[[2, 5]], [[8, 11]]], [[[3, 6]], [[9, 12]]]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y_image: int8[1, 3, 1, 1] = Int8Conv(x, y_kernels, p, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1), name="fc")
    y: int8[1, 3] = Reshape(y_image, shape=(1, 3))
    z_kernels: int8[3, 2, 1, 2] = constant([[[[1, 4]], [[7, 10]]], [[[2, 5]], [[8, 11]]], [[[3, 6]], [[9, 12]]]])
    z_image: int8[1, 3, 1, 1] = Int8Conv(x, z_kernels, p, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    z: int8[3] = Reshape(z_image, shape=(3,))
    return y, z
""",
    ),
    "the rows of an image, whose columns come first": (
        """\
def f(x: int8[1, 2, 3, 2]):
    i: int8[1, 2, 3, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1))
    t: int8[3, 1, 2, 2] = Transpose(i, perm=(2, 0, 3, 1))
    a: int8[3, 1, 4] = Reshape(t, shape=(3, 1, 4))
    w: int8[4, 1] = constant([[1], [2], [3], [4]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[3, 1, 1] = Int8MatMul(a, w, p)
    return y
""",
        """\
def f(x: int8[1, 2, 3, 2]):
    i: int8[1, 2, 3, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1))
    y_kernels: int8[1, 2, 1, 2] = constant([[[[1, 3]], [[2, 4]]]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y_image: int8[1, 1, 3, 1] = Int8Conv(i, y_kernels, p, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    y_pixels: int8[1, 3, 1, 1] = Transpose(y_image, perm=(0, 2, 3, 1))
    y: int8[3, 1, 1] = Reshape(y_pixels, shape=(3, 1, 1))
    return y
""",
    ),
    "the columns of an image, and a flattened image with channels last": (
        """\
def f(x: int8[1, 2, 2, 2]):
    i: int8[1, 2, 2, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1))
    t: int8[2, 2, 2, 1] = Transpose(i, perm=(3, 1, 2, 0))
    a: int8[2, 4] = Reshape(t, shape=(2, 4))
    w: int8[4, 1] = constant([[1], [2], [3], [4]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[2, 1] = Int8MatMul(a, w, p)
    last: int8[1, 2, 2, 2] = Transpose(i, perm=(0, 2, 3, 1))
    b: int8[1, 8] = Flatten(last, axis=1)
    v: int8[8, 1] = constant([[1], [2], [3], [4], [5], [6], [7], [8]])
    z: int8[1, 1] = Int8MatMul(b, v, p)
    return y, z
""",
        """\
def f(x: int8[1, 2, 2, 2]):
    i: int8[1, 2, 2, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1))
    y_kernels: int8[1, 2, 2, 1] = constant([[[[1], [2]], [[3], [4]]]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y_image: int8[1, 1, 1, 2] = Int8Conv(i, y_kernels, p, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    y_pixels: int8[1, 1, 2, 1] = Transpose(y_image, perm=(0, 2, 3, 1))
    y: int8[2, 1] = Reshape(y_pixels, shape=(2, 1))
    z_kernels: int8[1, 2, 2, 2] = constant([[[[1, 3], [5, 7]], [[2, 4], [6, 8]]]])
    z_image: int8[1, 1, 1, 1] = Int8Conv(i, z_kernels, p, border=0, dilations=(1, 1), group=1, pads=(0, 0, 0, 0), strides=(1, 1))
    z: int8[1, 1] = Reshape(z_image, shape=(1, 1))
    return y, z
""",
    ),
}


@pytest.mark.parametrize("title", TEXTS)
def test_the_text_before_and_after(title):
    check_text(DENSE_TO_CONVOLUTION, *TEXTS[title])


LEFT_ALONE = {
    "several images": """\
def f(x: int8[2, 1, 1, 2]):
    a: int8[1, 4] = Reshape(x, shape=(1, 4))
    w: int8[4, 1] = constant([[1], [2], [3], [4]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 1] = Int8MatMul(a, w, p)
    return y
""",
    "a single pixel, which lies as a row does": """\
def f(x: int8[1, 2, 1, 1]):
    a: int8[1, 2] = Flatten(x, axis=1)
    w: int8[2, 1] = constant([[1], [2]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 1] = Int8MatMul(a, w, p)
    return y
""",
    "weights that come in": """\
def f(x: int8[1, 2, 1, 2], w: int8[4, 1]):
    a: int8[1, 4] = Flatten(x, axis=1)
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 1] = Int8MatMul(a, w, p)
    return y
""",
    "several rows of an image": """\
def f(x: int8[1, 2, 1, 2]):
    a: int8[2, 2] = Reshape(x, shape=(2, 2))
    w: int8[2, 1] = constant([[1], [2]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[2, 1] = Int8MatMul(a, w, p)
    return y
""",
    "no image": """\
def f(x: int8[1, 2]):
    a: int8[2] = Reshape(x, shape=(2,))
    w: int8[2, 1] = constant([[1], [2]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1] = Int8MatMul(a, w, p)
    return y
""",
    "rows of the heads of attention": """\
def f(x: int8[1, 2, 3, 2]):
    t: int8[1, 3, 2, 2] = Transpose(x, perm=(0, 2, 1, 3))
    a: int8[3, 4] = Reshape(t, shape=(3, 4))
    w: int8[4, 1] = constant([[1], [2], [3], [4]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[3, 1] = Int8MatMul(a, w, p)
    return y
""",
    "rows that products of activations write": """\
def f(a: int8[1, 2, 1, 3], b: int8[1, 2, 3, 2]):
    q: int64[4, 1] = constant([[0], [30000], [22], [32640]])
    m: int8[1, 2, 1, 2] = Int8Products(a, b, q, a_places=(0, 0, 1, 0), b_places=(0, 0, 3, 0), \
places=(0, 0, 1, 0), shape=(1, 2, 1, 2), size=(1, 2, 3), transposed=0, zeros=(0, 0))
    x: int8[1, 4] = Reshape(m, shape=(1, 4))
    w: int8[4, 1] = constant([[1], [2], [3], [4]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 1] = Int8MatMul(x, w, p)
    return y
""",
    "another order": """\
def f(x: int8[1, 2, 1, 1]):
    a: int8[1, 1, 1, 2] = Transpose(x, perm=(0, 2, 3, 1))
    w: int8[2, 1] = constant([[1], [2]])
    p: int64[4, 1] = constant([[5], [3], [2], [32640]])
    y: int8[1, 1, 1, 1] = Int8MatMul(a, w, p)
    return y
""",
}


@pytest.mark.parametrize("title", LEFT_ALONE)
def test_what_is_left_alone(title):
    check_text(DENSE_TO_CONVOLUTION, LEFT_ALONE[title])

"""Weights of four bits, two to a byte, with a scale for each block of them."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

BLOCK = 32  # weights that share a scale
OPSET = 21  # has integers of four bits
CONTRIBUTED = "com.microsoft"
MIDDLE, LARGEST = 8, 15  # of uint4


def in_blocks(model: ModelProto, *, zeros: bool, fused: bool) -> ModelProto:
    """Return a float model with the constants of matrix products in blocks.

    Args:
        zeros: with a zero point for each block; otherwise they are symmetric.
        fused: as MatMulNBits of com.microsoft; otherwise behind a DequantizeLinear.
    """
    model = version_converter.convert_version(model, OPSET)
    weights = {weight.name: weight for weight in model.graph.initializer}
    for node in list(model.graph.node):
        weight = weights.get(node.input[1]) if node.op_type == "MatMul" else None
        if weight is not None and weight.dims[0] % BLOCK == 0:
            (_fuse if fused else _dequantise)(model, node, numpy_helper.to_array(weight), zeros)
            model.graph.initializer.remove(weight)
    if fused:
        model.opset_import.append(helper.make_opsetid(CONTRIBUTED, 1))
    return model


def quantised(weights: np.ndarray, zeros: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return uint8[blocks, BLOCK, n] of four bits, float32[blocks, n] scales and uint8[blocks, n] zero points
    of float32[k, n]."""
    blocks = weights.reshape(-1, BLOCK, weights.shape[1])
    low, high = (np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0))
    if zeros:
        scales = (high - low) / LARGEST
        points = np.rint(-low / scales)
    else:
        scales = np.maximum(-low, high) / (MIDDLE - 1)
        points = np.full(scales.shape, MIDDLE)
    integers = np.clip(np.rint(blocks / scales[:, None]) + points[:, None], 0, LARGEST)
    return integers.astype(np.uint8), scales.astype(np.float32), points.astype(np.uint8)


def _pairs(nibbles: np.ndarray) -> np.ndarray:
    """Return the last dimension two to a byte, the first of two in the low bits."""
    odd = nibbles.shape[-1] % 2
    even = np.pad(nibbles, [*[(0, 0)] * (nibbles.ndim - 1), (0, odd)])
    packed: np.ndarray = even[..., ::2] | even[..., 1::2] << 4
    return packed


def _fuse(model: ModelProto, node: NodeProto, weights: np.ndarray, zeros: bool) -> None:
    """Make a MatMul a MatMulNBits."""
    integers, scales, points = quantised(weights, zeros)
    arrays = {"packed": _pairs(integers.transpose(2, 0, 1)), "scales": scales.T.ravel()}
    if zeros:
        arrays["points"] = _pairs(points.T).ravel()
    names = [f"{node.output[0]}_{name}" for name in arrays]
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array), name)
        for name, array in zip(names, arrays.values(), strict=True)
    )
    k, n = weights.shape
    node.op_type, node.domain = "MatMulNBits", CONTRIBUTED
    node.input[1:] = names
    node.attribute.extend(
        helper.make_attribute(key, value)
        for key, value in {"K": k, "N": n, "bits": 4, "block_size": BLOCK}.items()
    )


def _dequantise(model: ModelProto, node: NodeProto, weights: np.ndarray, zeros: bool) -> None:
    """Put a DequantizeLinear before a MatMul."""
    integers, scales, points = quantised(weights, zeros)
    kind, less = (TensorProto.UINT4, 0) if zeros else (TensorProto.INT4, MIDDLE)
    names = [f"{node.output[0]}_{name}" for name in ("integers", "scales", "points")]
    flat = integers.reshape(weights.shape).astype(np.int8) - less
    model.graph.initializer.append(helper.make_tensor(names[0], kind, weights.shape, flat.ravel()))
    model.graph.initializer.append(numpy_helper.from_array(scales, names[1]))
    if zeros:
        model.graph.initializer.append(helper.make_tensor(names[2], kind, points.shape, points.ravel()))
    dequantised = f"{node.output[0]}_weights"
    place = list(model.graph.node).index(node)
    inputs = names if zeros else names[:2]
    model.graph.node.insert(
        place,
        helper.make_node("DequantizeLinear", inputs, [dequantised], dequantised, axis=0, block_size=BLOCK),
    )
    model.graph.node[place + 1].input[1] = dequantised

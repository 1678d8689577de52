"""The inputs of a model, as far as its file tells their types."""

from onnx import GraphProto, TypeProto, ValueInfoProto

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.cut import own_inputs
from vdla.compiler.graph.onnx.elements import dtype_of
from vdla.runtime.samples.declared import Declared, is_batch_name

Shapes = dict[str, tuple[int, ...]]


def inputs_of(graph: GraphProto, shapes: Shapes) -> dict[str, Declared] | None:
    """Return the inputs of a model that are no initializers, by name; None where there are others than
    tensors, which the importer refuses.

    Args:
        shapes: of inputs whose own are open.
    """
    values = own_inputs(graph)
    if not all(value.type.HasField("tensor_type") for value in values):
        return None
    return {value.name: _declared(value.type.tensor_type, shapes.get(value.name)) for value in values}


def _declared(tensor: TypeProto.Tensor, given: tuple[int, ...] | None) -> Declared:
    """Return the type of an input, with the shape that the caller gives in place of its own."""
    dtype = _dtype(tensor.elem_type)
    names = tuple(dim.dim_param for dim in tensor.shape.dim)
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in tensor.shape.dim
    )
    is_open = len(shape) > 1 and shape[0] is None and is_batch_name(names[0], names[1:])
    if given is not None:
        return Declared(given, dtype, (), is_batch=is_open or given[:1] == (1,))
    if not tensor.HasField("shape"):
        return Declared(None, dtype)
    return Declared(shape, dtype, names, is_batch=is_open or shape[:1] == (1,))


def _dtype(code: int) -> str:
    """Return what NumPy calls a type of elements; "" for one that the importer refuses."""
    try:
        return dtype_of(code)
    except RefusalError:
        return ""


def shape_advice(value: ValueInfoProto) -> str:
    """Return how the shape of an input may be given that is open in the file, with the option as far as it is
    known: a batch of 1, and the names of other open extents."""
    dims = _declared(value.type.tensor_type, None)
    sizes = ["1" if dims.is_batch and not place else None for place in range(len(dims.shape or ()))]
    extents = [
        known or (name or "?" if extent is None else str(extent))
        for known, extent, name in zip(sizes, dims.shape or (), dims.names, strict=True)
    ]
    return (
        f"samples tell it (--calibrate), or --shape {value.name}={','.join(extents) or '...'}; in Python "
        "samples=... or "
        "shapes=..."
    )

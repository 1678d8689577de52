"""The declared types of the inputs of a model, and its states: inputs that have, in each run, the value of an
output of the run before."""

import re
from collections.abc import Iterable, Sequence

from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.cut import Shapes, runtime_inputs
from vdla.compiler.graph.onnx.tensors import dtype_of, extents_of
from vdla.runtime.host.dtypes import UNKNOWN
from vdla.runtime.samples.declared import Declared, is_batch_name

ANY = "*"
"""What stands for any text in the name of a state."""


def inputs_of(graph: GraphProto, shapes: Shapes) -> dict[str, Declared] | None:
    """Return the inputs of a model that are not initializers, by name.

    The result is None if an input is not a tensor, which the importer refuses.

    Args:
        shapes: shapes in place of dynamic shapes, by input.
    """
    values = runtime_inputs(graph)
    if not all(value.type.HasField("tensor_type") for value in values):
        return None
    return {value.name: _declared(value.type, shapes.get(value.name)) for value in values}


def _declared(type_: TypeProto, given: tuple[int, ...] | None) -> Declared:
    """Return the declared type of an input; the shape `given`, if any, replaces the declared shape."""
    tensor, dtype = type_.tensor_type, _dtype(type_.tensor_type.elem_type)
    names = tuple(map(_extent_name, tensor.shape.dim))
    shape = tuple(None if size == UNKNOWN else size for size in extents_of(type_) or ())
    is_open = len(shape) > 1 and shape[0] is None and is_batch_name(names[0], names[1:])
    if given is not None:
        return Declared(given, dtype, (), is_batch=is_open or given[:1] == (1,))
    if not tensor.HasField("shape"):
        return Declared(None, dtype)
    return Declared(shape, dtype, names, is_batch=is_open or shape[:1] == (1,))


def _extent_name(dim: TensorShapeProto.Dimension) -> str:
    """Return the name of an open extent; "" for what some exporters write in its place, such as ? or -1."""
    name = dim.dim_param
    return name if name != "None" and any(map(str.isalpha, name)) else ""


def _dtype(code: int) -> str:
    """Return the NumPy name of an element type; "" for a type that the importer refuses."""
    try:
        return dtype_of(code)
    except RefusalError:
        return ""


def shape_advice(value: ValueInfoProto) -> str:
    """Return advice on how to specify the dynamic shape of an input.

    The suggested option contains a batch of 1, the known extents, and the names of the other extents.
    """
    dims = _declared(value.type, None)
    extents = [
        "1" if dims.is_batch and not place else name or "?" if extent is None else str(extent)
        for place, (extent, name) in enumerate(zip(dims.shape or (), dims.names, strict=True))
    ]
    option = f"--shape {value.name}={','.join(extents) or '...'}"
    return f"pass samples (--calibrate), or {option}; in Python samples=... or shapes=..."


def matched(
    states: Iterable[tuple[str, str]], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """Return the output that each state takes, by the name of the input.

    Args:
        states: names of an input and an output; a `*` in both stands for the same text in both.
        inputs, outputs: of the model.

    Raises:
        GraphError: a pattern matches no input, or the output that it names is not there or is taken twice.
    """
    found: dict[str, str] = {}
    for before, after in states:
        if before.count(ANY) != after.count(ANY) or before.count(ANY) > 1:
            raise GraphError(
                f"state {before}={after}: write the name of an input and of an output, either without {ANY} "
                f"or with one {ANY} in each, which stands for the same text in both"
            )
        pattern = re.compile("(.+)".join(map(re.escape, before.split(ANY))))
        matches = [match for name in inputs if (match := pattern.fullmatch(name))]
        if not matches:
            raise GraphError(f"state {before}={after}: no input is called {before}; {_there(inputs)}")
        for match in matches:
            found[match[0]] = after.replace(ANY, match[1]) if match.groups() else after
    for name, output in found.items():
        if output not in outputs:
            raise GraphError(f"state {name} takes {output}, which is no output; {_there(outputs)}")
        if list(found.values()).count(output) > 1:
            raise GraphError(f"output {output} is taken by several states; name it once")
    return found


def _there(names: Sequence[str]) -> str:
    return f"there are {', '.join(names) or 'none'}"

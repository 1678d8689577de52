"""The C form of operators on the CPU: calls of the functions in `c/vdla_operators.h`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.export.c_text import ExportError, number, sizes
from vdla.export.values import VIEWS, elements_of
from vdla.runtime.host.normalisation import FRACTION_BITS
from vdla.runtime.layout import IMAGE_RANK
from vdla.runtime.module.plan import HostStep, Plan, Value, type_text

SUFFIXES = {"float32": "f32", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32"}
BINARY = {
    "Add": "VDLA_ADD",
    "Div": "VDLA_DIV",
    "Max": "VDLA_MAX",
    "Min": "VDLA_MIN",
    "Mul": "VDLA_MUL",
    "Sub": "VDLA_SUB",
}


@dataclass(frozen=True)
class Operand:
    """An input or an output of an operator.

    Attributes:
        place: the C expression of its first element.
        type: of the tensor.
    """

    place: str
    type: Value

    @property
    def count(self) -> int:
        """The number of elements."""
        return elements_of(self.type)

    @property
    def item(self) -> int:
        """The bytes of an element."""
        return np.dtype(self.type.dtype).itemsize


@dataclass(frozen=True)
class Call:
    """An operator with its operands.

    Attributes:
        inputs: None for an optional input that is left out.
        outputs: the outputs that have a name.
    """

    step: HostStep
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]

    @property
    def x(self) -> Operand:
        """The first input."""
        return self.operand(0)

    @property
    def out(self) -> Operand:
        """The first output."""
        return self.outputs[0]

    def operand(self, place: int) -> Operand:
        """Return an input that is not optional."""
        operand = self.inputs[place]
        self.require(operand is not None, f"input {place} is left out")
        assert operand is not None
        return operand

    def optional(self, place: int) -> Operand | None:
        """Return an input, or None if it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def integer(self, name: str) -> int:
        """Return an integer attribute."""
        value = self.step.attributes[name]
        assert isinstance(value, int), f"attribute {name} of {self.step.op} is {value!r}"
        return int(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute of several integers."""
        values = self.step.attributes[name]
        assert isinstance(values, tuple), f"attribute {name} of {self.step.op} is {values!r}"
        return tuple(map(int, values))

    def axis(self) -> int:
        """Return the attribute `axis`, counted from the first dimension."""
        return self.integer("axis") % max(len(self.x.type.shape), 1)

    def require(self, holds: bool, reason: str) -> None:
        """Refuse a variant of the operator that has no C form.

        Raises:
            ExportError: it does not hold.
        """
        if not holds:
            raise refusal(self.step, reason)

    def require_types(self, *allowed: str) -> None:
        """Refuse inputs of other element types than `allowed`."""
        for each in self.inputs:
            self.require(
                each is None or each.type.dtype in allowed,
                f"it takes {', '.join(allowed)} there, not {each.type if each else None}",
            )


Lines = list[str]
Form = Callable[[Call], Lines]


def refusal(step: HostStep, reason: str) -> ExportError:
    """Return the error of an operator that has no C form."""
    return ExportError(
        f"{step.op} {step.name} on the host has no C form: {reason}; cut the network before it with "
        "`vdla compile --outputs`, and compute the rest on the CPU, or run the module with `vdla run`"
    )


def require_forms(plan: Plan) -> None:
    """Refuse a module with operators that have no C form.

    Raises:
        ExportError: naming the first operator and its layer.
    """
    for step in plan.host_steps:
        if step.op not in FORMS and step.op not in VIEWS:
            raise refusal(step, f"C has {', '.join(sorted((*FORMS, *VIEWS)))}")


def notes_of(plan: Plan) -> list[str]:
    """Return a line for each operator whose results may differ from the kit's."""
    return [f"{step.op} {step.name}: {difference_of(step.op)}" for step in plan.host_steps if step.op in ULP]


def difference_of(op: str) -> str:
    """Return how far the results of an operator may differ from the kit's."""
    units = f"{ULP[op]} units in the last place{' of the greatest element' * (op in OF_THE_GREATEST)}"
    return f"floats may differ from the floats of `vdla run` by {units}"


def call_of(step: HostStep, types: Mapping[str, Value], places: Mapping[str, str]) -> Lines:
    """Return the statements that compute an operator.

    Raises:
        ExportError: this variant of the operator has no C form.
    """
    inputs = tuple(Operand(places[name], types[name]) if name else None for name in step.inputs)
    outputs = tuple(Operand(places[name], types[name]) for name in step.outputs if name)
    if not all(each.count for each in (*inputs, *outputs) if each):
        raise refusal(step, "it has a tensor without elements")
    return FORMS[step.op](Call(step, inputs, outputs))


def around(shape: Sequence[int], axis: int) -> str:
    """Return the C value of a shape as [outer, channels, inner] around an axis."""
    if not shape:
        return "(struct vdla_shape){1, 1, 1}"
    parts = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return f"(struct vdla_shape){sizes(parts)}"


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return the steps, in elements, of a tensor in row-major order."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def broadcast_strides(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the steps with which a tensor is read as a tensor of the shape `wanted`."""
    strides = [0 if extent == 1 else step for extent, step in zip(shape, strides_of(shape), strict=True)]
    return [0] * (len(wanted) - len(shape)) + strides


def _statement(function: str, *arguments: object) -> str:
    """Return a call of a C function; an operand stands for its first element."""
    texts = (each.place if isinstance(each, Operand) else str(each) for each in arguments)
    return f"{function}({', '.join(texts)});"


def _scaled(name: str, x: str, result: str) -> Form:
    """Return the form of QuantizeLinear or DequantizeLinear; `x` and `result` name the types of the input and
    of the output where only one type is possible."""

    def form(call: Call) -> Lines:
        scale, zero = call.operand(1), call.operand(2)
        integers = zero.type.dtype
        call.require(scale.type.dtype == "float32", f"its scale is {scale.type}, not float32")
        call.require((x or integers) == call.x.type.dtype, f"its input is {call.x.type}")
        call.require((result or integers) == call.out.type.dtype, f"its output is {call.out.type}")
        allowed = ("int8", "uint8") if x else ("int8", "uint8", "int32")
        call.require(integers in allowed, f"its zero point is {zero.type}; C has {', '.join(allowed)}")
        steps = [each for parameter in (scale, zero) for each in (parameter, int(parameter.count > 1))]
        shape = around(call.x.type.shape, call.axis())
        return [_statement(f"vdla_{name}_{SUFFIXES[integers]}", call.out, call.x, shape, *steps)]

    return form


def _softmax(call: Call) -> Lines:
    call.require_types("float32")
    return [_statement("vdla_softmax", call.out, call.x, around(call.x.type.shape, call.axis()))]


def _dequantized_softmax(call: Call) -> Lines:
    return [_softmax_by_table(call, "vdla_dequantized_softmax", FRACTION_BITS)]


def _int8_softmax(call: Call) -> Lines:
    factor, addend = call.operand(2), call.operand(3)
    call.require(factor.count == addend.count == 1, "it has several factors")
    return [_softmax_by_table(call, "vdla_int8_softmax", factor, addend)]


def _softmax_by_table(call: Call, function: str, *parameters: Operand | int) -> str:
    """Return a softmax of int8 that reads a table of powers."""
    call.require(call.x.type.dtype == "int8", f"its input is {call.x.type}, not int8")
    shape = around(call.x.type.shape, call.axis())
    return _statement(function, call.out, call.x, shape, call.operand(1), *parameters)


def _layer_normalization(call: Call) -> Lines:
    call.require_types("float32")
    call.require(len(call.outputs) == 1, "its means or deviations are used")
    rows, weights = _rows_of(call), call.operand(1)
    bias = _vector(call, 2, weights.count)
    return [
        _statement("vdla_layer_normalization", call.out, call.x, *rows, weights, bias, _real(call, "epsilon"))
    ]


def _rms_normalization(call: Call) -> Lines:
    call.require_types("float32")
    rows, epsilon = _rows_of(call), _real(call, "epsilon")
    return [_statement("vdla_rms_normalization", call.out, call.x, *rows, call.operand(1), epsilon)]


def _rows_of(call: Call) -> tuple[int, int]:
    """Return how many rows a normalisation has, and the elements of a row; each has a scale."""
    inner, weights = prod(call.x.type.shape[call.axis() :]), call.operand(1)
    call.require(weights.count == inner, f"its scale is {weights.type}, not of {inner} elements")
    return call.x.count // inner, inner


def _int8_layer_normalization(call: Call) -> Lines:
    inner = call.x.type.shape[-1]
    vectors = call.operand(1), call.operand(2)
    call.require(all(each.count == inner for each in vectors), f"its factors are not of {inner} elements")
    rows, epsilon = (call.x.count // inner, inner), f"{call.integer('epsilon')}U"
    operands = *rows, *vectors, epsilon, call.integer("centred")
    return [_statement("vdla_int8_layer_normalization", call.out, call.x, *operands)]


def _vector(call: Call, place: int, count: int) -> Operand | str:
    """Return an optional input of `count` elements; NULL if it is left out."""
    vector = call.optional(place)
    call.require(vector is None or vector.count == count, f"input {place} is not of {count} elements")
    return vector or "NULL"


def _real(call: Call, name: str) -> str:
    value = call.step.attributes[name]
    assert isinstance(value, int | float), f"attribute {name} of {call.step.op} is {value!r}"
    return number(np.float32(value))


def _convolution(call: Call) -> Lines:
    call.require_types("float32")
    w = call.operand(1)
    call.require(len(call.x.type.shape) == IMAGE_RANK, f"its input is {call.x.type}, not an image")
    kernel = *w.type.shape[2:], call.integer("group"), *call.integers("strides"), *call.integers("dilations")
    members = *call.x.type.shape, *call.out.type.shape[1:], *kernel, *call.integers("pads")[:2]
    return [
        "{",
        f"    static const struct vdla_convolution convolution = {sizes(members)};",
        "",
        "    " + _statement("vdla_convolve", call.out, call.x, w, call.optional(2) or "NULL", "&convolution"),
        "}",
    ]


def _arg(sign: int) -> Form:
    """Return the form of ArgMax (sign 1) or ArgMin (-1)."""

    def form(call: Call) -> Lines:
        call.require_types("float32", "int8")
        shape = around(call.x.type.shape, call.axis())
        last = call.integer("select_last_index")
        return [_statement(f"vdla_arg_{SUFFIXES[call.x.type.dtype]}", call.out, call.x, shape, sign, last)]

    return form


def _binary(operation: str) -> Form:
    """Return the form of an operator on two float tensors."""

    def form(call: Call) -> Lines:
        call.require_types("float32")
        call.require(len(call.inputs) == 2, f"it has {len(call.inputs)} inputs, not 2")
        a, b, shape = call.x, call.operand(1), call.out.type.shape or (1,)
        a_strides, b_strides = (broadcast_strides(each.type.shape, shape) for each in (a, b))
        names = "extents", "a_strides", "b_strides"
        return [
            "{",
            f"    static const size_t extents[] = {sizes(shape)};",
            f"    static const ptrdiff_t a_strides[] = {sizes(a_strides)};",
            f"    static const ptrdiff_t b_strides[] = {sizes(b_strides)};",
            "",
            f"    {_statement('vdla_binary', call.out, a, b, operation, len(shape), *names)}",
            "}",
        ]

    return form


def _clip(call: Call) -> Lines:
    call.require_types("float32")
    return [_clipped(call, _real(call, "min"), _real(call, "max"))]


def _relu(call: Call) -> Lines:
    call.require_types("float32")
    return [_clipped(call, "0", "INFINITY")]


def _clipped(call: Call, low: str, high: str) -> str:
    return _statement("vdla_clip", call.out, call.x, call.x.count, low, high)


def _moved(call: Call, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Lines:
    """Return a copy of strided elements."""
    begin = call.x.place + (f" + {offset}" if offset else "")
    shape, strides = shape or (1,), strides or (0,)
    return [
        "{",
        f"    static const size_t extents[] = {sizes(shape)};",
        f"    static const ptrdiff_t strides[] = {sizes(strides)};",
        "",
        f"    {_statement('vdla_move', call.out, begin, call.x.item, len(shape), 'extents', 'strides')}",
        "}",
    ]


def _transpose(call: Call) -> Lines:
    steps = strides_of(call.x.type.shape)
    return _moved(call, call.out.type.shape, [steps[axis] for axis in call.integers("perm")])


def _expand(call: Call) -> Lines:
    return _moved(call, call.out.type.shape, broadcast_strides(call.x.type.shape, call.out.type.shape))


def _slice(call: Call) -> Lines:
    strides, offset = strides_of(call.x.type.shape), 0
    parts = (call.integers(name) for name in ("axes", "starts", "ends", "steps"))
    for axis, start, end, step in zip(*parts, strict=True):
        first, _, _ = slice(start, end, step).indices(call.x.type.shape[axis])
        offset += first * strides[axis]
        strides[axis] *= step
    return _moved(call, call.out.type.shape, strides, offset)


def _rows(
    out: Operand, out_offset: int, out_row: int, x: Operand, x_offset: int, x_row: int, rows: int
) -> str:
    """Return a copy of rows of bytes, each of the shorter of both lengths."""
    to, source = (f"(char *){out.place} + {out_offset}", f"(const char *){x.place} + {x_offset}")
    return _statement("vdla_copy_rows", to, out_row, source, x_row, min(out_row, x_row), rows)


def _row_bytes(operand: Operand, axis: int) -> int:
    """Return the bytes of the dimensions from `axis` on."""
    return prod(operand.type.shape[axis:]) * operand.item


def _concat(call: Call) -> Lines:
    axis, offset, lines = call.axis(), 0, []
    whole = _row_bytes(call.out, axis)
    for part in (each for each in call.inputs if each):
        size = _row_bytes(part, axis)
        lines.append(_rows(call.out, offset, whole, part, 0, size, prod(part.type.shape[:axis])))
        offset += size
    return lines


def _split(call: Call) -> Lines:
    axis, offset, lines = call.axis(), 0, []
    call.require(len(call.outputs) == len(call.integers("split")), "some of its outputs are left out")
    for part in call.outputs:
        size = _row_bytes(part, axis)
        rows = prod(part.type.shape[:axis])
        lines.append(_rows(part, 0, size, call.x, offset, _row_bytes(call.x, axis), rows))
        offset += size
    return lines


def _gather(call: Call) -> Lines:
    indices = call.operand(1)
    call.require(indices.type.dtype == "int64", f"its indices are {indices.type}, not int64")
    shape = around(call.x.type.shape, call.axis())
    return [_statement("vdla_gather", call.out, call.x, call.x.item, shape, indices, indices.count)]


def _lookup(call: Call) -> Lines:
    table = call.operand(1)
    return [_statement("vdla_lookup", call.out, call.x, call.x.count, table, table.item)]


def _flip_sign(call: Call) -> Lines:
    return [_statement("vdla_flip_sign", call.out, call.x, call.x.count)]


def _requantise(call: Call) -> Lines:
    parameters = call.operand(1)
    call.require(call.x.type.dtype == "int8", f"its input is {call.x.type}, not int8")
    call.require(parameters.type.shape == (4, 1), f"its parameters are {parameters.type}, not int64[4, 1]")
    return [_statement("vdla_requantise", call.out, call.x, call.x.count, parameters)]


def _int8_matmul(call: Call) -> Lines:
    w, parameters = call.operand(1), call.operand(2)
    shape = type_text(w.type.shape, w.type.dtype)
    call.require(
        len(w.type.shape) == 2 and w.type.dtype in ("int8", "int16"), f"its second factor is {shape}"
    )
    call.require(len(call.x.type.shape) > 1, f"its first factor is {call.x.type}")
    function = f"vdla_int8_matmul_{SUFFIXES[w.type.dtype]}"
    extents = call.x.count // w.type.shape[0], *w.type.shape
    return [_statement(function, call.out, call.x, w, *extents, parameters, parameters.type.shape[-1])]


FORMS: Mapping[str, Form] = {
    "ArgMax": _arg(1),
    "ArgMin": _arg(-1),
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _convolution,
    "DequantizeLinear": _scaled("dequantize", "", "float32"),
    "DequantizedSoftmax": _dequantized_softmax,
    "Expand": _expand,
    "FlipSign": _flip_sign,
    "Gather": _gather,
    "Int8LayerNormalization": _int8_layer_normalization,
    "Int8Lookup": _lookup,
    "Int8MatMul": _int8_matmul,
    "Int8Requantise": _requantise,
    "Int8Softmax": _int8_softmax,
    "LayerNormalization": _layer_normalization,
    "QuantizeLinear": _scaled("quantize", "float32", ""),
    "RMSNormalization": _rms_normalization,
    "Relu": _relu,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Transpose": _transpose,
    **{op: _binary(operation) for op, operation in BINARY.items()},
}
"""The C form of each operator; operators of `VIEWS` need none."""

ULP: Mapping[str, int] = {"Conv": 64, "LayerNormalization": 16, "RMSNormalization": 8, "Softmax": 8}
"""Operators whose floats may differ from the kit's, by so many units in the last place."""

OF_THE_GREATEST = ("Conv", "LayerNormalization")
"""Operators whose difference counts in units of the greatest element of the result."""

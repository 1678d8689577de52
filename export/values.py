"""The values of a module on the CPU: their types, and where C keeps them.

A value is an argument of the run function, a constant, or a member of a union. Values that are never live at
the same time share a union.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from vdla.compiler.network.memory_plan import Life, share
from vdla.export.c_text import c_type, identifiers
from vdla.runtime.host.evaluate import evaluate
from vdla.runtime.module.plan import HostStep, LaunchStep, Plan, Value

VIEWS = ("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators whose result has the bytes of their input."""


@dataclass(frozen=True)
class CpuValues:
    """The values of a module on the CPU.

    Attributes:
        types: of every value.
        places: the C expression of each value's first element.
        unions: the members of each union, by their identifiers.
        constants: the constants that steps read or that are outputs, by their identifiers.
        inputs, outputs: the identifiers of inputs and outputs.
        copies: outputs that no step writes, with the value that holds their elements.
    """

    types: Mapping[str, Value]
    places: Mapping[str, str]
    unions: Mapping[str, Mapping[str, Value]]
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    copies: Mapping[str, str]

    @property
    def union_bytes(self) -> int:
        """The bytes of all unions."""
        return sum(max(map(bytes_of, members.values())) for members in self.unions.values())


def elements_of(value: Value) -> int:
    """Return how many elements a value has."""
    return prod(value.shape)


def bytes_of(value: Value) -> int:
    """Return how many bytes a value has."""
    return elements_of(value) * np.dtype(value.dtype).itemsize


def values_of(plan: Plan) -> CpuValues:
    """Return types and places of the values of a module.

    Raises:
        OperatorError: an operator on the host does not take its inputs.
        ExportError: C has no type for the elements of an input, an output or a value between steps.
    """
    types = types_of(plan)
    sources = _sources(plan)
    written = {name for step in plan.steps for name in _results(step) if sources[name] == name}
    inner = [name for name in types if name in written and name not in plan.outputs]
    names = identifiers(inner)
    shared, _ = share(_lives(plan, sources, types, inner))
    unions: dict[str, dict[str, Value]] = {}
    for name in inner:
        unions.setdefault(shared[name], {})[names[name]] = types[name]
    constants = identifiers(f"constant_{name}" for name in plan.constants)
    inputs, outputs = identifiers(plan.inputs), identifiers(plan.outputs)
    places = {name: f"{shared[name]}.{names[name]}" for name in inner}
    places |= {name: constants[f"constant_{name}"] for name in plan.constants}
    places |= {name: f"inputs->{inputs[name]}" for name in plan.inputs}
    places |= {name: f"outputs->{outputs[name]}" for name in plan.outputs if name in written}
    places |= {name: places[source] for name, source in sources.items() if name not in places}
    copies = {name: sources[name] for name in plan.outputs if name not in written}
    read = {sources[name] for step in plan.steps for name in _reads(step)} | set(copies.values())
    used = {places[name]: values for name, values in plan.constants.items() if name in read}
    for name, value in types.items():
        c_type(value.dtype, name)
    return CpuValues(types, places, unions, used, inputs, outputs, copies)


def types_of(plan: Plan) -> dict[str, Value]:
    """Return the type of every value: of a run on zeros, without the accelerator."""
    arrays = {name: np.zeros(value.shape, value.dtype) for name, value in plan.inputs.items()}
    arrays |= plan.constants
    for step in plan.steps:
        if isinstance(step, LaunchStep):
            arrays |= {crossing.value: np.zeros(crossing.layout.shape, np.int8) for crossing in step.unpacks}
        else:
            given = [arrays[name] if name else None for name in step.inputs]
            results = evaluate(step.op, given, step.attributes)
            arrays |= dict(zip(step.outputs, results, strict=False))
    return {name: Value(array.shape, str(array.dtype)) for name, array in arrays.items()}  # type: ignore[arg-type]


def _sources(plan: Plan) -> dict[str, str]:
    """Return, for every value, the value whose bytes it has: itself, or that of a view's input."""
    sources = {name: name for name in (*plan.inputs, *plan.constants)}
    for step in plan.steps:
        for name in _results(step):
            if isinstance(step, HostStep) and step.op in VIEWS:
                sources[name] = sources[step.inputs[0]]
            else:
                sources[name] = name
    return sources


def _lives(
    plan: Plan, sources: Mapping[str, str], types: Mapping[str, Value], inner: list[str]
) -> Iterator[Life]:
    """Yield the first and the last step that access each value between steps."""
    first = {name: at for at, step in enumerate(plan.steps) for name in _results(step)}
    last = dict(first)
    for at, step in enumerate(plan.steps):
        last |= {sources[name]: at for name in _reads(step)}
    last |= {sources[name]: len(plan.steps) for name in plan.outputs}
    for name in inner:
        yield Life(name, bytes_of(types[name]), first[name], last[name])


def _results(step: HostStep | LaunchStep) -> list[str]:
    if isinstance(step, LaunchStep):
        return [crossing.value for crossing in step.unpacks]
    return [name for name in step.outputs if name]


def _reads(step: HostStep | LaunchStep) -> list[str]:
    if isinstance(step, LaunchStep):
        return [crossing.value for crossing in step.packs]
    return [name for name in step.inputs if name]

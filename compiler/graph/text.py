"""Graphs as text in a subset of Python, which `vdla.compiler.graph.parse` reads back to an equal graph.

    def net(x: float32[1, 4]):
        w: float32[4, 4] = constant(sha256="9f3a...")
        b: float32[4] = constant([0.0, 0.5, 1.0, 1.5])
        h: float32[1, 4] = Gemm(x, w, b, alpha=1.0, beta=1.0, transA=0, transB=0, name="fc")
        y: float32[1, 4] = Relu(h)
        return y

An input that has, in each run, the value of an output of the run before is named before the function:
`@state("past", "present", scale, zero)`. Both values stand for (value - zero) scale.

A constant precedes its first use. It is written with its elements if it is small, else with their hash.
The types of a node with several outputs precede it on separate lines.
Names that are not identifiers are encoded.
"""

import json
import keyword
import re
from collections.abc import Callable, Iterator
from math import isfinite

import numpy as np

from vdla.compiler.graph.nodes import Attribute, Graph, Node, TensorType
from vdla.runtime.arrays import digest
from vdla.runtime.module.plan import State

DigestOf = Callable[[np.ndarray], str]
INDENT = "    "
INLINE_ELEMENTS = 16
MARK = "ꞏ"  # delimits the code of a character; a letter, so that identifiers may begin with it
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
CODED = re.compile(f"{MARK}([0-9a-f]{{1,6}}){MARK}")


def print_graph(graph: Graph, digest_of: DigestOf = digest) -> str:
    """Return the text of a graph.

    Args:
        digest_of: returns the hash of a constant's elements; called for each constant whose hash alone is in
            the text.
    """
    params = ", ".join(f"{identifier_of(name)}: {type_}" for name, type_ in graph.inputs.items())
    return (
        "\n".join(
            [
                *(_state(name, state) for name, state in graph.states.items()),
                f"def {identifier_of(graph.name)}({params}):",
                *(INDENT + line for line in _lines(graph, digest_of)),
            ]
        )
        + "\n"
    )


def print_node(node: Node) -> str:
    """Return the text of a node, without the types of its outputs."""
    arguments = [identifier_of(name) if name else "None" for name in node.inputs]
    arguments += [f"{name}={print_attribute(value)}" for name, value in node.attributes.items()]
    notes = {
        "name": node.name or None,
        "reason": node.reason or None,
        "macs": node.macs,
        "step_of": node.step_of or None,
    }
    arguments += [f"{key}={print_attribute(value)}" for key, value in notes.items() if value is not None]
    return f"{', '.join(map(identifier_of, node.outputs))} = {node.op}({', '.join(arguments)})"


def print_attribute(value: Attribute) -> str:
    """Return a number, string or tuple as a Python literal; infinities as `float("inf")`."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case float() if not isfinite(value):
            return f'float("{value!r}")'
        case tuple():
            return f"({', '.join(map(print_attribute, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def _state(name: str, state: State) -> str:
    parts: tuple[Attribute, ...] = (name, state.output, state.scale, state.zero)
    return f"@state({', '.join(map(print_attribute, parts))})"


def _lines(graph: Graph, digest_of: DigestOf) -> Iterator[str]:
    printed: set[str] = set()
    used = {name for node in graph.nodes for name in node.inputs}
    yield from (
        _constant(name, graph.constants[name], digest_of) for name in graph.constants if name not in used
    )
    for node in graph.nodes:
        for name in dict.fromkeys(node.inputs):
            if name in graph.constants and name not in printed:
                printed.add(name)
                yield _constant(name, graph.constants[name], digest_of)
        yield from _typed(node, graph)
    yield f"return {', '.join(map(identifier_of, graph.outputs))}" if graph.outputs else "return"


def _typed(node: Node, graph: Graph) -> Iterator[str]:
    if len(node.outputs) == 1:
        (name,) = node.outputs
        yield f"{identifier_of(name)}: {graph.types[name]}{print_node(node)[len(identifier_of(name)) :]}"
        return
    yield from (f"{identifier_of(name)}: {graph.types[name]}" for name in node.outputs)
    yield print_node(node)


def _constant(name: str, array: np.ndarray, digest_of: DigestOf) -> str:
    head = f"{identifier_of(name)}: {TensorType(array.shape, str(array.dtype))}"
    if array.size > INLINE_ELEMENTS:
        return f'{head} = constant(sha256="{digest_of(array)}")'
    return f"{head} = constant({_elements(array)})"


def _elements(array: np.ndarray) -> str:
    """Return nested lists; floats with the fewest digits that identify a float32."""
    if array.ndim:
        return f"[{', '.join(map(_elements, array))}]"
    if array.dtype.kind == "f":
        return print_attribute(float(str(array[()])))
    return repr(array.item())


# Names as identifiers


def identifier_of(name: str) -> str:
    """Return the identifier that encodes a name.

    An ASCII identifier such as `conv1` is its own encoding. In other names, each other character becomes its
    hexadecimal code between two marks: `input.1` becomes `inputꞏ2eꞏ1`.
    """
    if PLAIN.match(name) and not keyword.iskeyword(name):
        return name
    first = 1 if name[:1].isdigit() or keyword.iskeyword(name) else 0
    return "".join(
        _coded(letter) if place < first or not PLAIN.match(f"_{letter}") else letter
        for place, letter in enumerate(name)
    )


def name_of(spelling: str) -> str:
    """Return the name that an identifier encodes."""
    return CODED.sub(lambda code: _letter(code), spelling)


def _coded(letter: str) -> str:
    return f"{MARK}{ord(letter):x}{MARK}"


def _letter(code: re.Match[str]) -> str:
    number = int(code[1], 16)
    return chr(number) if number < 0x110000 else code[0]

"""The parser of graph texts. It uses Python's own parser, so positions in errors are exact."""

import ast
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np

from vdla.compiler.graph.nodes import Graph, GraphError, Node, TensorType, type_of
from vdla.compiler.graph.text import name_of
from vdla.hw.spec.python_text import statements_of
from vdla.runtime.arrays import digest
from vdla.runtime.host.dtypes import TENSOR_DTYPES
from vdla.runtime.module.plan import State

Placed: TypeAlias = ast.stmt | ast.expr | ast.arg  # nodes with a position in the text


def parse_graph(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """Read a graph.

    Args:
        constants: arrays by name or by hash; required for each constant whose hash alone is in the text. An
            array that is given by hash may have another shape and type of as many bytes.

    Raises:
        GraphError: the text is not a graph, or a constant is missing or does not match its hash. The message
            shows the position.
    """
    try:
        tree = statements_of(text)
    except SyntaxError as error:
        raise GraphError(
            f"line {error.lineno}: "
            f"{error.msg}\n{(error.text or '').rstrip()}\n{' ' * ((error.offset or 1) - 1)}^"
        ) from error
    return _Parser(text, constants or {}).graph(tree)


class _Parser:
    """The state of the parser: the values defined so far."""

    def __init__(self, text: str, given: Mapping[str, np.ndarray]) -> None:
        self.lines, self.given = text.splitlines(), given
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Node] = []

    def fail(self, node: Placed, problem: str) -> GraphError:
        """Return the error that points at `node`."""
        return GraphError(
            f"line {node.lineno}: {problem}\n{self.lines[node.lineno - 1]}\n{' ' * node.col_offset}^"
        )

    def graph(self, tree: ast.Module) -> Graph:
        """Return the graph of a syntax tree; GraphError: it is not a single function."""
        match tree.body:
            case [
                ast.FunctionDef(
                    name=name,
                    body=[*statements, ast.Return(value)],
                    args=ast.arguments(args=args),
                    decorator_list=decorators,
                )
            ]:
                inputs = {name_of(arg.arg): self.declare(arg.arg, arg.annotation, arg) for arg in args}
                for statement in statements:
                    self.statement(statement)
                outputs = self.names(value)
                states = dict(map(self.state, decorators))
                nodes = tuple(self.nodes)
                return Graph(name_of(name), inputs, outputs, nodes, self.constants, self.types, states)
        raise GraphError(
            "line 1: a graph is one function that ends with return: def name(inputs): nodes; return outputs"
        )

    def state(self, node: ast.expr) -> tuple[str, State]:
        """Return an input and the output that it takes from the run before."""
        match node:
            case ast.Call(ast.Name("state"), [name, output, scale, zero], []):
                parts = tuple(map(self.literal, (name, output, scale, zero)))
                try:
                    return parts[0], msgspec.convert(
                        dict(zip(("output", "scale", "zero"), parts[1:], strict=True)), State
                    )
                except msgspec.ValidationError as error:
                    raise self.fail(node, f"this is no state: {error}") from error
        raise self.fail(node, 'a state is written @state("input", "output", scale, zero)')

    def names(self, node: ast.expr | None) -> tuple[str, ...]:
        """Return the names in a comma-separated list of values."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node] if node else []
        return tuple(self.value(part) for part in parts)

    def value(self, node: ast.expr) -> str:
        """Return the name of a defined value, or "" for None, an input that is left out."""
        match node:
            case ast.Name(spelling) if name_of(spelling) in self.types:
                return name_of(spelling)
            case ast.Constant(None):
                return ""
        raise self.fail(node, "a value that was defined before is needed here")

    def declare(self, spelling: str, annotation: ast.expr | None, node: Placed) -> TensorType:
        """Define a value and return its type; GraphError: the name is taken, or the type is invalid."""
        name = name_of(spelling)
        if name in self.types:
            raise self.fail(node, f"{name} is defined twice")
        self.types[name] = self.type(name, annotation, node)
        return self.types[name]

    def type(self, name: str, annotation: ast.expr | None, node: Placed) -> TensorType:
        """Return the type of an annotation such as float32[1, 3]."""
        match annotation:
            case ast.Name(dtype) if dtype in TENSOR_DTYPES:
                return TensorType((), dtype)
            case ast.Subscript(ast.Name(dtype), extents) if dtype in TENSOR_DTYPES:
                sizes = self.literal(extents)
                return TensorType(sizes if isinstance(sizes, tuple) else (sizes,), dtype)
        raise self.fail(
            node, f"{name} needs a type such as float32[1, 3]; element types are {', '.join(TENSOR_DTYPES)}"
        )

    def statement(self, node: ast.stmt) -> None:
        """Parse a statement: a constant, a node, or the type of a value."""
        match node:
            case ast.AnnAssign(ast.Name(name), annotation, ast.Call(ast.Name("constant")) as call):
                type_ = self.declare(name, annotation, node)
                self.constants[name_of(name)] = self.constant(node, call, name_of(name), type_)
            case ast.AnnAssign(ast.Name(name), annotation, ast.Call(ast.Name()) as call):
                operator = self.node(call, (name_of(name),))
                self.declare(name, annotation, node)
                self.nodes.append(operator)
            case ast.AnnAssign(ast.Name(name), annotation, None):
                self.declare(name, annotation, node)
            case ast.Assign([ast.Tuple(names)], ast.Call(ast.Name()) as call):
                self.nodes.append(self.node(call, tuple(self.value(name) for name in names)))
            case _:
                raise self.fail(
                    node, "this is not a statement of a graph: a constant, a node, or the type of a value"
                )

    def node(self, call: ast.Call, outputs: tuple[str, ...]) -> Node:
        """Return the node of a call, with the results `outputs`."""
        attributes = {keyword.arg or "": self.literal(keyword.value) for keyword in call.keywords}
        name, reason = attributes.pop("name", ""), attributes.pop("reason", "")
        macs, step_of = attributes.pop("macs", None), attributes.pop("step_of", "")
        inputs = tuple(self.value(argument) for argument in call.args)
        assert isinstance(call.func, ast.Name)
        return Node(call.func.id, inputs, outputs, attributes, name, reason, macs, step_of)

    def constant(self, node: Placed, call: ast.Call, name: str, type_: TensorType) -> np.ndarray:
        """Return a constant, given by its elements, or by the hash of an array passed to `parse_graph`."""
        match call.args, call.keywords:
            case [elements], []:
                return self.elements(elements, type_)
            case [], [ast.keyword("sha256", ast.Constant(str(expected)))]:
                return self.given_constant(node, name, type_, expected)
        raise self.fail(node, 'a constant is written constant(elements) or constant(sha256="...")')

    def elements(self, node: ast.expr, type_: TensorType) -> np.ndarray:
        """Return the array of a literal, of the type `type_`."""
        try:
            array = np.array(self.literal(node), type_.dtype)
        except (ValueError, OverflowError) as error:
            raise self.fail(node, f"these are not elements of {type_}: {error}") from error
        if type_.size == 0 and array.size == 0:
            return array.reshape(type_.shape)
        if array.shape != type_.shape:
            raise self.fail(node, f"the elements are of shape {list(array.shape)}, not {list(type_.shape)}")
        return array

    def given_constant(self, node: Placed, name: str, type_: TensorType, expected: str) -> np.ndarray:
        """Return the array passed for a constant; GraphError: it is missing, or its hash differs."""
        array = self.given.get(name)
        if array is None and expected in self.given:
            array = _as_type(self.given[expected], type_)
        if array is None:
            raise self.fail(node, f"the text holds only the hash of {name}; pass its elements in constants")
        if type_of(array) != type_ or digest(array) != expected:
            raise self.fail(
                node, f"the array given for {name}, {type_of(array)}, is not the array whose hash is printed"
            )
        return array

    def literal(self, node: ast.expr) -> Any:
        """Return a number, a string, or a tuple or list of such values."""
        match node:
            case ast.Constant(value) if isinstance(value, int | float | str):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(value)) if isinstance(value, int | float):
                return -value
            case ast.Call(ast.Name("float"), [ast.Constant(("inf" | "-inf" | "nan") as value)], []):
                return float(value)
            case ast.Tuple(parts):
                return tuple(self.literal(part) for part in parts)
            case ast.List(parts):
                return [self.literal(part) for part in parts]
        raise self.fail(node, "a number, a string, or a tuple of them is needed here")


def _as_type(array: np.ndarray, type_: TensorType) -> np.ndarray:
    """Return an array's bytes as elements of `type_`; the array itself if these are not as many bytes."""
    dtype = np.dtype(type_.dtype)
    if array.nbytes != type_.size * dtype.itemsize:
        return array
    return np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(type_.shape)

"""Handover of nodes to onnxruntime: types of their inputs and results, and models of connected parts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from vdla.compiler.graph.nodes import Node
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.part_models import (
    Opsets,
    ResultType,
    declarations,
    definition_of,
    have_common_version,
    model_of,
    prepared,
    probe,
    run,
    unshaped,
    versions_of,
)
from vdla.compiler.graph.onnx.parts import HostNode, HostPart, part_of
from vdla.compiler.graph.onnx.quantised import narrow_tensor
from vdla.compiler.graph.onnx.subgraphs import reads, subgraphs
from vdla.compiler.graph.onnx.tensors import proto_of
from vdla.compiler.graph.onnx.values import ImportedValues, check_usable
from vdla.runtime.host.dtypes import TENSOR_DTYPES, fits

RANDOM = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniform")  # and their Likes
WITH_SHAPE = "declare the shape of {} in the file (onnx.shape_inference, or value_info)"
WITHOUT_SEQUENCES = (
    "take {} out of the file's outputs, or export tensors (skl2onnx: options={{'zipmap': False}})"
)
Result = TypeVar("Result")
MOST_ELEMENTS = 1 << 24  # of a result that is computed while importing


class Handover:
    """The nodes of a model that onnxruntime runs.

    Args:
        values: the values of the graph under construction.
        opsets: versions of the model's operator sets.
        declared: types that the model declares for values; they complete the inferred types.

    Attributes:
        results: the types of values that have no type in the graph, by the graph's names.
        tensors: constants that a graph cannot hold, by the model's names.
    """

    def __init__(self, values: ImportedValues, opsets: Opsets, declared: Iterable[ValueInfoProto]) -> None:
        self.values, self.opsets = values, opsets
        self.declared = {value.name: value.type for value in declared}
        self.results: dict[str, ResultType] = {}
        self.tensors: dict[str, TensorProto] = {}

    def add_tensor(self, tensor: TensorProto) -> None:
        """Keep a constant that a graph cannot hold."""
        self.tensors[tensor.name] = tensor
        self.values.names[tensor.name] = self.values.define(tensor.name, None)

    def hand_over(self, node: NodeProto, reason: str, wanted: Iterable[str]) -> HostNode | None:
        """Hand over a node; return None if its results are computed now and become constants.

        Args:
            node: the node.
            reason: why the kit does not run it.
            wanted: its used outputs, by the model's names.

        Raises:
            RefusalError: onnxruntime does not support the node either.
        """
        names, outputs = reads(node), list(wanted)
        constants = tuple(name for name in names if self.is_constant(name))
        inputs = {name: self.values.names[name] for name in names if name not in constants}
        versions = list(versions_of(node, self.opsets[""]))
        may_compute = not inputs and _is_pure(node)
        try:
            model, version, inferred = self.accepted([node], versions, inputs, constants, outputs, probe)
        except RefusalError:
            if may_compute and self.try_compute(node, versions[-1], constants, outputs):
                return None
            raise
        results = {name: self.refined_type(name, type_) for name, type_ in inferred.items()}
        if may_compute and all(map(_is_small, results.values())) and self.try_add_constants(run(model)):
            return None
        return HostNode(node, reason, inputs, constants, self.define_results(results), version)

    def accepted(
        self,
        nodes: Sequence[NodeProto],
        versions: Sequence[int],
        inputs: Iterable[str],
        constants: Iterable[str],
        outputs: list[str],
        check: Callable[[ModelProto], Result],
    ) -> tuple[ModelProto, int, Result]:
        """Return the first model of nodes that onnxruntime accepts, its version, and the result of the check.

        Args:
            nodes: in topological order.
            versions: the versions of the main operator set to try, the preferred first.
            inputs: the model's names of the inputs.
            constants: the constants that the nodes read, by the model's names.
            outputs: the model's names of the results.
            check: refuses a model that onnxruntime does not accept.

        Raises:
            RefusalError: onnxruntime accepts no version; the message is its reason for the last version.
        """
        types = {name: self.type_of(name) for name in inputs}
        tensors, refused = [self.tensor(name) for name in constants], list[RefusalError]()
        for known in declarations(nodes, types):
            for version in versions:
                model = model_of(nodes, {**self.opsets, "": version}, known, tensors, outputs)
                try:
                    return model, version, check(model)
                except RefusalError as error:
                    refused.append(error)
        raise refused[len(versions) - 1]

    def try_compute(
        self, node: NodeProto, version: int, constants: Sequence[str], outputs: list[str]
    ) -> bool:
        """Compute the results of a node from constants, and add them; return whether that succeeded.

        The constants are passed as inputs without shapes, which onnxruntime checks less strictly.
        """
        if any(name in self.values.ranges for name in constants):
            return False  # the graph has bytes in place of narrower integers
        try:
            arrays = {name: self.values.constants[self.values.names[name]] for name in constants}
            types = {name: unshaped(self.type_of(name)) for name in constants}
            model = model_of([node], {**self.opsets, "": version}, types, (), outputs)
            return self.try_add_constants(run(model, arrays))
        except (RefusalError, KeyError):
            return False

    def try_add_constants(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Add results as constants; return whether a graph can hold them."""
        if not all(str(array.dtype) in TENSOR_DTYPES for array in arrays.values()):
            return False
        for name, array in arrays.items():
            self.values.add_constant(name, array)
        return True

    def expansion(self, node: NodeProto) -> list[NodeProto]:
        """Return the nodes of an operator's definition as an ONNX function; empty if it has none."""
        types = {name: self.type_of(name) for name in reads(node) if name not in self.tensors}
        return definition_of(model_of([node], self.opsets, types, (), [name for name in node.output if name]))

    def is_constant(self, name: str) -> bool:
        """Whether a value of the model is constant."""
        return name in self.tensors or self.values.names[name] in self.values.constants

    def tensor(self, name: str) -> TensorProto:
        """Return a constant by the model's name, in its type in the model."""
        if name in self.tensors:
            return self.tensors[name]
        array = self.values.constants[self.values.names[name]]
        if name in self.values.ranges:
            return narrow_tensor(name, array, self.values.ranges[name])
        return numpy_helper.from_array(array, name)

    def type_of(self, name: str) -> TypeProto:
        """Return the type of a value by the model's name."""
        key = self.values.names[name]
        return self.results[key].proto if key in self.results else proto_of(self.values.types[key])

    def refined_type(self, name: str, inferred: ResultType) -> ResultType:
        """Return the inferred type, or the declared type if it fits and the inferred shape is unknown."""
        tensor, stated = inferred.tensor, self.declared.get(name)
        is_known = tensor is not None and tensor.is_known
        if stated is None or not inferred.proto.HasField("tensor_type") or is_known:
            return inferred
        declared = ResultType(stated)
        if declared.tensor is None or stated.tensor_type.elem_type != inferred.proto.tensor_type.elem_type:
            return inferred
        return declared if tensor is None or fits(declared.tensor.shape, tensor.shape) else inferred

    def define_results(self, results: Mapping[str, ResultType]) -> dict[str, str]:
        """Define the results of a node in the graph; return the graph's names by the model's."""
        keys = {}
        for name, result in results.items():
            type_ = result.tensor
            known = type_ is not None and type_.is_known
            if type_ is not None and known:
                check_usable(type_, f"its output {name!r} ")
            keys[name] = self.values.define(name, type_ if known else None)
            if not known:
                self.results[keys[name]] = result
        self.values.names |= keys
        return keys

    def nodes(self, part: HostPart) -> list[Node]:
        """Return the nodes that run a part: a single node, or a node for each node of the part.

        The nodes run separately if they are not the same in a common version of the operator set. The models
        become constants; values that cross the border of a part get types.

        Raises:
            RefusalError: a graph cannot hold a value that crosses the border, or onnxruntime refuses the
                part.
        """
        versions = [node.version for node in part.nodes]
        is_common = len(part.nodes) == 1 or have_common_version(part.protos, versions)
        parts = [part] if is_common else [part_of([node]) for node in part.nodes]
        return list(map(self.node, parts))

    def node(self, part: HostPart) -> Node:
        """Return the single node that runs a part; raises as `nodes` does."""
        for name, key in (*part.inputs.items(), *part.outputs.items()):
            self.add_type(name, key)
        constants = dict.fromkeys(name for node in part.nodes for name in node.constants)
        version = max(node.version for node in part.nodes)
        _, _, array = self.accepted(
            part.protos, [version], part.inputs, constants, list(part.outputs), prepared
        )
        return part.node(self.values.new_constant(f"{next(iter(part.outputs.values()))}_part", array))

    def add_type(self, name: str, key: str) -> None:
        """Set the graph's type of a value that crosses the border of a part.

        Raises:
            RefusalError: a graph cannot hold the value.
        """
        if key in self.values.types:
            return
        type_ = self.results[key].tensor
        if type_ is None:
            is_tensor = self.results[key].proto.HasField("tensor_type")
            raise RefusalError(
                f"{name!r} is a {self.results[key]}, which must not leave the nodes that onnxruntime runs "
                f"together; tensors of known rank and of {', '.join(TENSOR_DTYPES)} may; "
                + (WITH_SHAPE if is_tensor else WITHOUT_SEQUENCES).format(repr(name))
            )
        self.values.types[key] = type_


def _is_pure(node: NodeProto) -> bool:
    """Whether a node is deterministic, and runs in bounded time."""
    training = any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    return not training and not node.op_type.startswith(RANDOM) and not any(subgraphs(node))


def _is_small(result: ResultType) -> bool:
    type_ = result.tensor
    return type_ is not None and prod(max(size, 1) for size in type_.shape) <= MOST_ELEMENTS

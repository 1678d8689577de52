"""Handing nodes to onnxruntime: what they read and make, and the models of the parts they end up in."""

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from vdla.compiler.graph.nodes import Node, TensorType
from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.checks import check_usable
from vdla.compiler.graph.onnx.nibbles import narrow_tensor
from vdla.compiler.graph.onnx.outside import Outside, Part, alone, bytes_of, node_of, protos
from vdla.compiler.graph.onnx.part import (
    Made,
    Opsets,
    expanded,
    go_together,
    model_of,
    probe,
    run,
    statements,
    unshaped,
    versions_of,
)
from vdla.compiler.graph.onnx.subgraphs import nodes_within, reads, subgraphs
from vdla.compiler.graph.onnx.tensors import proto_of
from vdla.compiler.graph.onnx.values import Values
from vdla.runtime.host.dtypes import TENSOR_DTYPES, UNKNOWN
from vdla.runtime.host.onnx_runtime import prepare

RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
WITH_SHAPE = "declare the shape of {} in the file (onnx.shape_inference, or value_info)"
WITHOUT_SEQUENCES = (
    "take {} out of the file's outputs, or export tensors (skl2onnx: options={{'zipmap': False}})"
)
MOST_ELEMENTS = 1 << 24  # of a result that is computed while importing


class Handover:
    """What is left to onnxruntime of a model.

    Args:
        values: of the graph under construction.
        opsets: versions of the model's operator sets.
        declared: types that the model states for values, which hold where inference finds less.

    Attributes:
        made: what is known of values that have no type in the graph.
        tensors: constants that a graph cannot hold, by the model's names.
    """

    def __init__(self, values: Values, opsets: Opsets, declared: Iterable[ValueInfoProto]) -> None:
        self.values, self.opsets = values, opsets
        self.declared = {value.name: value.type for value in declared}
        self.made: dict[str, Made] = {}
        self.tensors: dict[str, TensorProto] = {}

    def add_tensor(self, tensor: TensorProto) -> None:
        """Keep a constant that a graph cannot hold."""
        self.tensors[tensor.name] = tensor
        self.values.names[tensor.name] = self.values.define(tensor.name, None)

    def take(self, node: NodeProto, reason: str, wanted: Iterable[str]) -> Outside | None:
        """Take a node over; None where its results are known now and become constants.

        Args:
            reason: why the kit does not run it.
            wanted: its outputs that something reads, by the model's names.

        Raises:
            RefusalError: onnxruntime does not run it either.
        """
        names, outputs = reads(node), list(wanted)
        constants = tuple(name for name in names if self.is_constant(name))
        inputs = {name: self.values.names[name] for name in names if name not in constants}
        types = {name: self.type_of(key) for name, key in inputs.items()}
        tensors = [self.tensor(name) for name in constants]
        may_compute = not inputs and _is_pure(node)
        try:
            model, version, found = self.probed(node, types, tensors, outputs)
        except RefusalError:
            if may_compute and self.has_computed(node, constants, outputs):
                return None
            raise
        if may_compute and all(map(_is_small, found.values())) and self.has_taken(run(model)):
            return None
        return Outside(node, reason, inputs, constants, self.defined(found), version)

    def probed(
        self, node: NodeProto, types: Mapping[str, TypeProto], tensors: list[TensorProto], outputs: list[str]
    ) -> tuple[ModelProto, int, dict[str, Made]]:
        """Return the model of a node in a version that onnxruntime takes, that version, and what it makes.

        Raises:
            RefusalError: onnxruntime takes no version; it says why it does not take the oldest.
        """
        versions, refused = list(versions_of(node, self.opsets[""])), list[RefusalError]()
        for known in statements([node], types):
            for version in versions:
                model = model_of([node], {**self.opsets, "": version}, known, tensors, outputs)
                try:
                    found = probe(model)
                except RefusalError as error:
                    refused.append(error)
                    continue
                return model, version, {name: self.refined(name, made) for name, made in found.items()}
        raise refused[len(versions) - 1]

    def has_computed(self, node: NodeProto, constants: Iterable[str], outputs: list[str]) -> bool:
        """Compute a node from constants as from inputs of any shape, with which onnxruntime is less strict;
        return whether it could be done."""
        if any(name in self.values.ranges for name in constants):
            return False  # the graph has bytes in place of fewer bits
        try:
            keys = {name: self.values.names[name] for name in constants}
            types = {name: unshaped(self.type_of(key)) for name, key in keys.items()}
            model = model_of([node], {**self.opsets, "": _oldest(node, self.opsets)}, types, (), outputs)
            return self.has_taken(
                run(model, {name: self.values.constants[key] for name, key in keys.items()})
            )
        except (RefusalError, KeyError):
            return False

    def has_taken(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Make constants of results; return whether a graph can hold them."""
        if not all(str(array.dtype) in TENSOR_DTYPES for array in arrays.values()):
            return False
        for name, array in arrays.items():
            self.values.add_constant(name, array)
        return True

    def expansion(self, node: NodeProto) -> list[NodeProto]:
        """Return the nodes that an operator is made of by its definition; none where it has none."""
        keys = {name: self.values.names[name] for name in reads(node)}
        typed = {name: key for name, key in keys.items() if key in self.made or key in self.values.types}
        types = {name: self.type_of(key) for name, key in typed.items()}
        return expanded(model_of([node], self.opsets, types, (), [name for name in node.output if name]))

    def is_constant(self, name: str) -> bool:
        """Whether a value of the model is known now."""
        return name in self.tensors or self.values.names[name] in self.values.constants

    def tensor(self, name: str) -> TensorProto:
        """Return a constant, by the model's name."""
        if name in self.tensors:
            return self.tensors[name]
        array = self.values.constants[self.values.names[name]]
        if name in self.values.ranges:
            return narrow_tensor(name, array, self.values.ranges[name])
        return numpy_helper.from_array(array, name)

    def type_of(self, key: str) -> TypeProto:
        """Return the type of a value of the graph."""
        return self.made[key].proto if key in self.made else proto_of(self.values.types[key])

    def refined(self, name: str, made: Made) -> Made:
        """Return what is known of a value, with what the model states where that is more."""
        own, stated = made.tensor, self.declared.get(name)
        if stated is None or not made.proto.HasField("tensor_type") or (own is not None and own.is_known):
            return made
        told = Made(stated)
        if told.tensor is None or stated.tensor_type.elem_type != made.proto.tensor_type.elem_type:
            return made
        fits = own is None or (
            len(own.shape) == len(told.tensor.shape)
            and all(
                size in (UNKNOWN, other) for size, other in zip(own.shape, told.tensor.shape, strict=True)
            )
        )
        return told if fits else made

    def defined(self, found: Mapping[str, Made]) -> dict[str, str]:
        """Make the values that a node makes; return their names by the model's."""
        keys = {}
        for name, made in found.items():
            type_ = made.tensor
            known = type_ is not None and type_.is_known
            if type_ is not None and known:
                check_usable(type_, f"its output {name!r} ")
            keys[name] = self.values.define(name, type_ if known else None)
            if not known:
                self.made[keys[name]] = made
        self.values.names |= keys
        return keys

    def nodes(self, part: Part) -> list[Node]:
        """Make the models of a part, constants, and what crosses their borders; return the node that runs
        it, or one for each of its nodes where onnxruntime does not take them together.

        Raises:
            RefusalError: what crosses cannot be held outside of onnxruntime, or it refuses the part.
        """
        if len(part.nodes) > 1 and not go_together(protos(part), [one.version for one in part.nodes]):
            return [self.node(each) for each in alone(part)]
        return [self.node(part)]

    def node(self, part: Part) -> Node:
        """Return the node that runs a part; errors as those of `nodes`."""
        for name, key in (*part.inputs.items(), *part.outputs.items()):
            self.add_type(name, key)
        constants = dict.fromkeys(name for one in part.nodes for name in one.constants)
        types = {name: self.type_of(key) for name, key in part.inputs.items()}
        opsets = {**self.opsets, "": max(one.version for one in part.nodes)}
        tensors, refused = [self.tensor(name) for name in constants], list[ValueError]()
        for known in statements(list(protos(part)), types):
            array = bytes_of(model_of(list(protos(part)), opsets, known, tensors, list(part.outputs)))
            try:
                prepare(array)
            except ValueError as error:
                refused.append(error)
                continue
            return node_of(part, self.values.new_constant(f"{next(iter(part.outputs.values()))}_part", array))
        raise RefusalError(f"onnxruntime does not run it: {refused[0]}") from refused[0]

    def add_type(self, name: str, key: str) -> None:
        """Give a value that crosses a border its type in the graph."""
        if key in self.values.types:
            return
        type_ = self.made[key].tensor
        if type_ is None:
            is_tensor = self.made[key].proto.HasField("tensor_type")
            raise RefusalError(
                f"{name!r} is a {self.made[key]}, which must not leave the nodes that onnxruntime runs "
                f"together; tensors of known rank and of {', '.join(TENSOR_DTYPES)} may; "
                + (WITH_SHAPE if is_tensor else WITHOUT_SEQUENCES).format(repr(name))
            )
        self.values.types[key] = type_


def _oldest(node: NodeProto, opsets: Opsets) -> int:
    *_, oldest = versions_of(node, opsets[""])
    return oldest


def _is_pure(node: NodeProto) -> bool:
    """Whether a node makes the same in each run, and in bounded time."""
    training = any(one.name == "training_mode" and one.i for one in node.attribute)
    return not (
        training or any(one.op_type in (*RANDOM, "Dropout") for one in nodes_within(node))
    ) and not any(subgraphs(node))


def _is_small(made: Made) -> bool:
    type_: TensorType | None = made.tensor
    return type_ is not None and prod(max(size, 1) for size in type_.shape) <= MOST_ELEMENTS

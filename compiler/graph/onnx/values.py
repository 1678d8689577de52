"""The values of a graph under construction: their names, types and constants."""

from collections.abc import Collection

import numpy as np

from vdla.compiler.graph.nodes import TakenNames, TensorType, type_of
from vdla.compiler.graph.onnx.names import printable
from vdla.compiler.graph.onnx.nibbles import RANGES, as_bytes


class ImportedValues:
    """The values that the importer has added so far.

    Args:
        model_names: the names of the model's values.

    Attributes:
        model_names: names that the model's nodes use, those of inlined nodes included.
        taken: names that no new value of the graph may have.
        names: the graph's name of each imported value, by the model's name.
        types: types of the graph's values; values that only onnxruntime can hold have none.
        constants: the graph's constants by name.
        ranges: the ranges of values of less than eight bits, by the model's names.
    """

    def __init__(self, model_names: Collection[str]) -> None:
        self.model_names = TakenNames(model_names)
        self.taken = TakenNames(model_names)
        self.names: dict[str, str] = {}
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.ranges: dict[str, tuple[int, int]] = {}

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Add a constant for a value of the model; integers of less than eight bits become bytes."""
        if str(array.dtype) in RANGES:
            self.ranges[name] = RANGES[str(array.dtype)]
        self.names[name] = self.new_constant(name, as_bytes(array))

    def new_constant(self, wish: str, array: np.ndarray) -> str:
        """Add a constant; return its name, which is derived from `wish` as in `define`."""
        name = self.define(wish, type_of(array))
        self.constants[name] = array
        return name

    def define(self, wish: str, type_: TensorType | None) -> str:
        """Add a value; return its name: `wish` if it is a printable name of the model, else a free name."""
        plain = printable(wish)
        name = wish if plain == wish and self.model_names.is_taken(wish) else self.taken.free(plain)
        self.taken.add(name)
        if type_ is not None:
            self.types[name] = type_
        return name

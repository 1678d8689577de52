"""The values of a graph under construction: their names, types and constants."""

from collections.abc import Collection

import numpy as np

from vdla.compiler.graph.nodes import TakenNames, TensorType, type_of
from vdla.compiler.graph.onnx.names import printable
from vdla.compiler.graph.onnx.nibbles import RANGES, as_bytes


class Values:
    """The values that an importer has made so far.

    Args:
        own_names: the names that the model itself has.

    Attributes:
        names: the graph's name of each of the model's values, as far as they could be made.
        types: of the graph's values; those that only onnxruntime can hold have none.
        constants: as in a graph.
        ranges: of values that are integers of less than eight bits in the model, by its names.
        taken: names that no new value may have.
    """

    def __init__(self, own_names: Collection[str]) -> None:
        self.own_names = TakenNames(own_names)
        self.taken = TakenNames(own_names)
        self.names: dict[str, str] = {}
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.ranges: dict[str, tuple[int, int]] = {}

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Make a constant for a value of the model; integers of less than eight bits become bytes."""
        if str(array.dtype) in RANGES:
            self.ranges[name] = RANGES[str(array.dtype)]
        self.names[name] = self.new_constant(name, as_bytes(array))

    def new_constant(self, wish: str, array: np.ndarray) -> str:
        """Make a constant; return its name."""
        name = self.define(wish, type_of(array))
        self.constants[name] = array
        return name

    def define(self, wish: str, type_: TensorType | None) -> str:
        """Make a value; return its name: the model's own if it is short and printable, else one like it that
        is free."""
        plain = printable(wish)
        name = wish if plain == wish and self.own_names.is_taken(wish) else self.taken.free(plain)
        self.taken.add(name)
        if type_ is not None:
            self.types[name] = type_
        return name

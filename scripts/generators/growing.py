"""A random network while it grows: its values, nodes and constants."""

import random
from dataclasses import dataclass

import numpy as np
from models.graph import GraphBuilder

IMAGE, VOLUME, ROWS = "image", "volume", "rows"  # kinds of values
RANKS = {4: IMAGE, 5: VOLUME}  # all others are rows


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a graph in the making."""

    name: str
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """What it is, by its rank."""
        return RANKS.get(len(self.shape), ROWS)

    @property
    def has_channels(self) -> bool:
        """Whether its second axis is channels, before its sides; else channels are the last axis of rows."""
        return self.kind != ROWS


class Growing:
    """A graph in the making.

    Attributes:
        values: what operators may read; results of the last few operators are read most often.
        shapes: of the inputs.
        read: what operators read so far.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.builder = GraphBuilder(f"random_{seed}", seed)
        self.values: list[Value] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.read: set[str] = set()

    def input(self, name: str, *shape: int) -> None:
        """Declare an input."""
        self.shapes[name] = shape
        self.values.append(Value(self.builder.input(name, *shape), shape))

    def some(self, kind: str) -> Value | None:
        """Return a value of a kind, more likely the last of them; None where there is none."""
        wanted = [value for value in self.values if value.kind == kind]
        if not wanted:
            return None
        return wanted[-1] if self.rng.random() < 0.7 else self.rng.choice(wanted)

    def keep(self, name: str, *shape: int) -> None:
        """Keep what an operator makes."""
        self.values.append(Value(name, shape))

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add an operator; return what it makes."""
        self.read.update(inputs)
        return self.builder.node(op, *inputs, **attributes)

    def constant(self, *shape: int, least: float = -1.0, most: float = 1.0) -> str:
        """Return a constant of uniform numbers."""
        return self.builder.constant(self.numbers.uniform(least, most, shape).astype(np.float32))

    def weights(self, *shape: int, fan_in: int) -> str:
        """Return weights that keep the size of activations; some of them are skewed."""
        array = self.numbers.normal(size=shape) / np.sqrt(fan_in)
        skew = self.rng.choice([0.0, 0.0, 0.5, 2.0]) / np.sqrt(fan_in)
        return self.builder.constant((array + skew * np.abs(array)).astype(np.float32))

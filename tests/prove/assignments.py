"""Elements next to the bytes that they stand for, under several assignments of bytes to roots."""

from dataclasses import dataclass, field

import numpy as np

from vdla.prove.domain import Domain
from vdla.prove.elements import Elements
from vdla.prove.functions import BYTES, ZERO

COUNT = 24  # assignments


@dataclass
class Assignments:
    """Assignments of random bytes to roots.

    Attributes:
        known: the bytes int8[COUNT] of each element that has been checked.
    """

    domain: Domain = field(default_factory=lambda: Domain(1))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    known: dict[bytes, np.ndarray] = field(default_factory=dict)

    def unknown(self, name: str, shape: tuple[int, ...]) -> tuple[Elements, np.ndarray]:
        """Return unknown elements of a shape and their bytes int8[COUNT, *shape]."""
        values = self.rng.integers(-128, 128, (COUNT, *shape)).astype(np.int8)
        values[0], values[1] = -128, 127
        return self.domain.fresh(name, shape), values

    def mixed(self, name: str, shape: tuple[int, ...]) -> tuple[Elements, np.ndarray]:
        """Return elements of a shape, as `unknown`: functions of few roots, constants among them."""
        roots, values = self.unknown(name, (5,))
        functions = np.stack(
            (
                BYTES,
                np.maximum(BYTES, 0),
                self.rng.integers(-128, 128, 256),
                np.full(256, -128),
                np.full(256, 7),
            )
        )
        chosen, applied = (
            self.rng.integers(0, 5, shape),
            self.rng.choice(5, shape, p=(0.6, 0.1, 0.1, 0.1, 0.1)),
        )
        numbers = np.array([self.domain.functions.number(each) for each in functions], np.int32)
        elements = self.domain.apply(roots[chosen], numbers[applied])
        return elements, functions[applied, values[:, chosen].astype(np.int64) + ZERO].astype(np.int8)

    def check(self, elements: Elements, values: np.ndarray) -> None:
        """Check that equal elements have equal bytes, here and in earlier calls, and constants their value.

        Args:
            values: int8[COUNT, ...], the bytes of the elements.
        """
        assert values.shape == (COUNT, *elements.shape)
        flat = np.ascontiguousarray(elements).reshape(-1)
        columns = values.reshape(COUNT, -1).T
        for element, column in zip(flat, columns, strict=True):
            expected = self.known.setdefault(element.tobytes(), column)
            np.testing.assert_array_equal(column, expected)
            if not element["kind"]:
                assert (column == self.domain.functions.values[element["function"], 0]).all()

"""Results of a proof, as values and as JSON."""

from dataclasses import dataclass
from math import log2
from typing import Any

from vdla.hw.spec.errors import VdlaError


class NotProvedError(VdlaError):
    """The streams of a module do not compute its graph, or a proof that they do fails."""


@dataclass(frozen=True, slots=True)
class LayerProof:
    """The comparison of a layer's result with the graph.

    Attributes:
        name, op: the layer's.
        launch: stream that computes the layer.
        elements: number of compared elements.
        proved: whether all of them are equal.
    """

    name: str
    op: str
    launch: str
    elements: int
    proved: bool

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "name": self.name,
            "op": self.op,
            "launch": self.launch,
            "elements": self.elements,
            "proved": self.proved,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The first difference between what a stream computes of an element and what the graph does.

    Attributes:
        kind: "activation", "weight", "missing", "extra", "constant", "parameter", "table" or "residual".
        instruction: that computes with the wrong operand; None if there is none.
        loaded_by: instruction that put the wrong operand into its scratchpad; None if there is none.
        text: a sentence.
    """

    kind: str
    instruction: int | None
    loaded_by: int | None
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        return {
            "kind": self.kind,
            "instruction": self.instruction,
            "loaded_by": self.loaded_by,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof.

    Attributes:
        proved: whether the streams compute the graph of integer operators for every input.
        failure_probability: bound of the probability, over the choice of the seed, that streams and graph
            differ although `proved` is true.
        axioms: names of the axioms that were used; `vdla.prove.axioms` has their sentences.
        layers: compared layers, in order; after the first difference there are no more.
        difference: the first difference; "" if there is none.
        seed: with which the proof can be repeated.
        explanation: of the first element that differs; None if the difference is no element, or no operand of
            the element explains it.
    """

    proved: bool
    failure_probability: float
    axioms: tuple[str, ...]
    layers: tuple[LayerProof, ...]
    difference: str
    seed: int
    explanation: Explanation | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "proved": self.proved,
            "failure_probability": self.failure_probability,
            "axioms": list(self.axioms),
            "layers": [layer.to_json() for layer in self.layers],
            "difference": self.difference,
            "seed": self.seed,
            "explanation": None if self.explanation is None else self.explanation.to_json(),
        }

    @property
    def bound(self) -> str:
        """The bound of the failure probability as a power of two, rounded up."""
        return f"2^{-int(-log2(self.failure_probability))}" if self.failure_probability else "0"

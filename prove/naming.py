"""Names of elements and of their places, for the explanation of a difference."""

from collections.abc import Iterable, Mapping

import numpy as np

from vdla.compiler.graph.nodes import Graph
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, same_roots
from vdla.prove.graph_terms import GraphRead, GraphTerm, Index
from vdla.prove.launches import WrongElement
from vdla.prove.reference import DemandedValues
from vdla.prove.stream_forms import Read
from vdla.prove.stream_terms import NOTHING, ON_CHIP, Operand
from vdla.runtime.session.launch import Tensor


def loader_of(held: Operand) -> int | None:
    """Return the instruction that filled an operand; None if there is none."""
    return None if held.loader == NOTHING else held.loader


class Names:
    """Finds elements in the values of a graph, and addresses in the tensors of a plan.

    Args:
        domain: of the proof.
        graph: the graph for the target.
        wrong: the element that differs.
        constants: uint8[bytes], DRAM.
    """

    def __init__(self, domain: Domain, graph: Graph, wrong: WrongElement, constants: np.ndarray) -> None:
        self._domain, self._graph, self._constants = domain, graph, constants
        self._tensors, self._standing = wrong.placed.tensors, sorted(wrong.standing)
        self._inside = _values_inside(graph, wrong)
        self._values: dict[str, Elements] = {}

    def values(self, names: Iterable[str]) -> None:
        """Compute values of the graph; elements are looked for in them first."""
        missing = sorted({*names} - {*self._values})
        demanded = DemandedValues(self._domain, self._graph, missing)
        self._values |= {name: demanded.take(name) for name in missing}

    def element(self, read: GraphRead) -> Elements:
        """Return what a term of the graph reads, element[]."""
        self.values([read.value])
        element: Elements = self._values[read.value][read.index]
        if read.function is None:
            return element
        number = self._domain.functions.number(read.function)
        result: Elements = self._domain.apply(element.reshape(1), number)[0]
        return result

    def index_of(self, value: str, element: Elements) -> Index | None:
        """Return where a value of the graph has an element."""
        self.values([value])
        values = self._values[value]
        same = np.flatnonzero(values.reshape(-1) == element)
        if not same.size:
            return None
        return tuple(int(each) for each in np.unravel_index(same[0], values.shape))

    def place_of(self, element: Elements) -> tuple[str, Index] | None:
        """Return a value of the graph that has an element, and where: a value that has been computed, or else
        a value that is in DRAM before the layer, or inside the layer."""
        for name in (*self._values, *self._standing, *self._inside):
            index = self.index_of(name, element)
            if index is not None:
                return name, index
        return None

    def _function(self, element: Elements) -> str:
        """Return an element that the values do not have as a function of another, if they have its root."""
        for name in (*self._values, *self._standing):
            self.values([name])
            same = np.flatnonzero(same_roots(self._values[name].reshape(-1), element))
            if same.size and element["kind"]:
                index = np.unravel_index(same[0], self._values[name].shape)
                return f"another function of {name}{[int(each) for each in index]}"
        return "an element of no value of the graph"

    def term(self, term: GraphTerm) -> str:
        """Return the activations of a term of the graph."""
        names = [(f"{read.value}{list(read.index)}", read.function) for read in term.reads]
        return " times ".join(
            name if function is None else f"a function of {name}" for name, function in names
        )

    def number(self, element: Elements) -> int:
        """Return the value of an element that is a constant."""
        return int(self._domain.functions.least[element["function"]])

    def held(self, *reads: Read) -> str:
        """Return the activations that a step read, and where they were."""
        return " by ".join(self._held(read) for read in reads)

    def _held(self, read: Read) -> str:
        graph_place = self.place_of(read.element)
        what = (
            self._function(read.element) if graph_place is None else f"{graph_place[0]}{list(graph_place[1])}"
        )
        return f"{what}, in {self.place(read.operand, read.lane)}"

    def place(self, held: Operand, lane: int = 0) -> str:
        """Return an element of a scratchpad, and what filled it."""
        return f"{held.memory.name} element {held.place}{self.filled(held, lane)}"

    def filled(self, held: Operand, lane: int = 0) -> str:
        """Return which instruction filled an element, and from where."""
        if held.loader == NOTHING:
            return ""
        if held.address == ON_CHIP:
            return f" (written by instruction {held.loader})"
        where = "with padding" if held.address == NOTHING else self._at(held.address + lane)
        return f" (filled by instruction {held.loader} {where})"

    def _at(self, address: int) -> str:
        named_tensor = self._tensor_at(address)
        if named_tensor is None:
            return f"from byte {address:#x}"
        name, tensor, _ = named_tensor
        return f"from byte {address - tensor.address:,} of {name}, at {address:#x}"

    def weight_block(self, weight: Operand, row: int, factors: Mapping[int, int]) -> str:
        """Return which block of a tensor is read, and which was due, if a single block has some factors.

        Args:
            weight: the block that is read.
            row: of the factors in the block.
            factors: by column.
        """
        named_tensor = self._tensor_at(weight.address)
        if named_tensor is None:
            return ""
        name, tensor, data = named_tensor
        size, shape = weight.values.size, weight.values.shape
        blocks = data[: len(data) // size * size].view(np.int8).reshape(-1, *shape)
        equal = [blocks[:, row, column] == factor for column, factor in factors.items()]
        fit, here = np.flatnonzero(np.all(equal, axis=0)), (weight.address - tensor.address) // size
        if len(fit) != 1:
            return ""
        return f": it reads weight block {here} of {name} where block {fit[0]} was due"

    def _tensor_at(self, address: int) -> tuple[str, Tensor, np.ndarray] | None:
        """Return the tensor that holds an address, with its name and its bytes."""
        for name, tensor in self._tensors.items():
            if tensor.address <= address < tensor.end:
                return name, tensor, self._constants[tensor.address : tensor.end]
        return None


def _values_inside(graph: Graph, wrong: WrongElement) -> list[str]:
    """Return the values between the values in DRAM before a layer and the value that differs."""
    values = {wrong.value}
    for node in reversed(graph.nodes):
        if values & {*node.outputs}:
            values |= {name for name in node.inputs if name in graph.types and name not in wrong.standing}
    return sorted(values - {*graph.constants, *graph.inputs})

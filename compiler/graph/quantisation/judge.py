"""How far a quantised graph is from the float graph, by what leaves it on samples; and how many runs that may
take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, producers

WORK = 6e10  # multiply-accumulates that judging may take
WORK_OF_ELEMENT = 64  # of an operator, beside its products
MOST_SAMPLES = 8
EPSILON = 1e-9  # results that do not vary are compared with their errors alone
SATURATING = ("Sigmoid", "Softmax")  # what they read says more than what they make, up to a point
REACH = float(np.log(512))  # of what they read; beyond it what they make is within half a step of an end

Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Telling:
    """What tells how near a result is.

    Attributes:
        name: of a result of the network, or of that of the saturating operator whose elements it holds.
        op: the saturating operator, whose input tells; None: the result itself does.
        axis: of a Softmax.
    """

    name: str
    op: str | None = None
    axis: int = -1

    @classmethod
    def of(cls, result: str, makers: Mapping[str, Node]) -> "_Telling":
        """Return what tells about a result of the network, whose values the nodes make."""
        name = result
        while name in makers and makers[name].op in REARRANGING:
            name = makers[name].inputs[0]
        maker = makers.get(name)
        if maker is None or maker.op not in SATURATING:
            return cls(result)
        return cls(name, maker.op, maker.integer("axis") if "axis" in maker.attributes else -1)

    def values(self, seen: np.ndarray) -> np.ndarray:
        """Return values that change where the result does, float64."""
        wide = seen.astype(np.float64)
        if self.op == "Softmax":
            wide = np.maximum(wide - wide.max(axis=self.axis, keepdims=True), -REACH)
        elif self.op is not None:
            wide = np.clip(wide, -REACH, REACH)
        return wide


class Judge:
    """Compares quantised graphs with a float graph.

    Args:
        graph: the float graph.
        samples: as many of them are used as the work allows.
        candidates: how many graphs are to be compared on all of them.
        glances: how many are to be compared on the first alone.

    Attributes:
        samples: those that are used; at least one.
        runs: how many runs the work allows; 0 where a single one is too much.
    """

    def __init__(self, graph: Graph, samples: Sequence[Sample], candidates: int, glances: int = 0) -> None:
        self.runs = int(WORK / work(graph))
        count = min(len(samples), MOST_SAMPLES, max(1, (self.runs - glances) // candidates))
        places = np.linspace(0, len(samples) - 1, count).astype(int)
        self.samples = [samples[place] for place in places]
        makers = producers(graph)
        self._telling = [
            _Telling.of(out, makers) for out in graph.outputs if graph.types[out].dtype == "float32"
        ]
        self._graph, self._known = graph, list[list[np.ndarray]]()

    def _wanted(self, count: int | None) -> list[list[np.ndarray]]:
        """Return what leaves the float graph on the first samples; it is run on each once."""
        left = self.samples[len(self._known) : count]
        self._known += [self._values(self._graph, sample) for sample in left]
        return self._known[:count]

    def error(self, graph: Graph, count: int | None = None) -> float:
        """Return the power of the errors of all results by that of the results' deviations from their mean,
        added over the results; infinite where a result is not finite.

        Args:
            count: how many of the samples it is found on; None: all.
        """
        found = [self._values(graph, sample) for sample in self.samples[:count]]
        pairs = zip(_joined(self._wanted(count)), _joined(found), strict=True)
        return sum(_relative(*pair) for pair in pairs)

    def _values(self, graph: Graph, sample: Sample) -> list[np.ndarray]:
        makers = producers(graph)
        names = [each.name if each.op is None else makers[each.name].inputs[0] for each in self._telling]
        seen: dict[str, np.ndarray] = dict(sample)

        def watch(_: Node, made: Mapping[str, np.ndarray]) -> None:
            seen.update((name, array) for name, array in made.items() if name in names)

        interpret(graph, sample, watch)
        return [each.values(seen[name]) for each, name in zip(self._telling, names, strict=True)]


def _joined(runs: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Return each result of all runs in one."""
    return [np.concatenate([part.reshape(-1) for part in parts]) for parts in zip(*runs, strict=True)]


def _relative(wanted: np.ndarray, found: np.ndarray) -> float:
    finite = np.isfinite(wanted)
    if not np.array_equal(finite, np.isfinite(found)):
        return np.inf
    wanted, found = wanted[finite], found[finite]
    error = float(np.square(found - wanted).sum())
    return error / max(float(np.square(wanted - wanted.mean()).sum()), error * EPSILON) if error else 0.0


def work(graph: Graph) -> float:
    """Return about how much a run of a graph takes, in multiply-accumulates."""
    elements = sum(graph.types[name].size for node in graph.nodes for name in node.outputs)
    return max(1.0, sum(macs(graph, node) for node in graph.nodes) + WORK_OF_ELEMENT * elements)

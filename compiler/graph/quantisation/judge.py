"""How far a quantised graph is from the float graph, by what leaves it on samples; and how many runs that may
take."""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import Graph, Node, producers

WORK = 7e9  # multiply-accumulates that judging may take
WORK_OF_ELEMENT = 64  # of an operator, beside its products
MOST_SAMPLES = 8
EPSILON = 1e-9  # results that do not vary are compared with their errors alone
SATURATING = ("LogSoftmax", "Sigmoid", "Softmax")  # what they read says more than what they make

Sample = Mapping[str, np.ndarray]


class Judge:
    """Compares quantised graphs with a float graph.

    Args:
        graph: the float graph.
        samples: as many of them are used as the work allows.
        candidates: how many graphs are to be compared.

    Attributes:
        samples: those that are used; at least one.
        runs: how many runs the work allows; 0 where a single one is too much.
    """

    def __init__(self, graph: Graph, samples: Sequence[Sample], candidates: int) -> None:
        self.runs = int(WORK / work(graph))
        count = min(len(samples), MOST_SAMPLES, max(1, self.runs // candidates))
        places = np.linspace(0, len(samples) - 1, count).astype(int)
        self.samples = [samples[place] for place in places]
        makers = producers(graph)
        self._behind = [
            (out, 0) if out in makers and makers[out].op in SATURATING else (out, None)
            for out in graph.outputs
            if graph.types[out].dtype == "float32"
        ]
        self._wanted = [self._values(graph, sample) for sample in self.samples]

    def error(self, graph: Graph) -> float:
        """Return the power of the errors of all results by that of the results' deviations from their mean,
        added over the results; infinite where a result is not finite."""
        found = [self._values(graph, sample) for sample in self.samples]
        return sum(_relative(*pair) for pair in zip(_joined(self._wanted), _joined(found), strict=True))

    def _values(self, graph: Graph, sample: Sample) -> list[np.ndarray]:
        makers = producers(graph)
        names = [out if place is None else makers[out].inputs[place] for out, place in self._behind]
        seen: dict[str, np.ndarray] = dict(sample)

        def watch(_: Node, made: Mapping[str, np.ndarray]) -> None:
            seen.update((name, array) for name, array in made.items() if name in names)

        interpret(graph, sample, watch)
        return [seen[name].astype(np.float64) for name in names]


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

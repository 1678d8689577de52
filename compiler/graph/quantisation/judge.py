"""How far a quantised graph is from the float graph, by what leaves it on samples; and how many runs that may
take.

Graphs are compared by `Assessment.error`. It counts the result of a Sigmoid or Softmax and its input: the
result is what people get, and where it is near its ends on the samples, the input tells how safely. What each
output itself has lost is `Assessment.outputs`, for people and for targets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.moves import REARRANGING
from vdla.compiler.graph.nodes import Graph, Node, producers
from vdla.compiler.graph.quantisation.noise import noise_of
from vdla.runtime.module.plan import OutputNoise

WORK = 6e10  # multiply-accumulates that judging may take
WORK_OF_ELEMENT = 64  # of an operator, beside its products
ENOUGH_SAMPLES, MOST_SAMPLES = 8, 64
ENOUGH_ELEMENTS = 64  # of the smallest output on all samples: of a single number, 8 samples say little
EPSILON = 1e-9  # results that do not vary are compared with their errors alone
SATURATING = ("Sigmoid", "Softmax")  # what they read says more near the ends of what they make
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
    def of(cls, result: str, makers: Mapping[str, Node]) -> "tuple[_Telling, ...]":
        """Return what tells about a result of the network, whose values the nodes make: the result, and what
        a saturating operator before it reads."""
        name = result
        while name in makers and makers[name].op in REARRANGING:
            name = makers[name].inputs[0]
        maker = makers.get(name)
        if maker is None or maker.op not in SATURATING:
            return (cls(result),)
        axis = maker.integer("axis") if "axis" in maker.attributes else -1
        return cls(result), cls(name, maker.op, axis)

    def values(self, seen: np.ndarray) -> np.ndarray:
        """Return values that change where the result does, float64."""
        wide = seen.astype(np.float64)
        if self.op == "Softmax":
            wide = np.maximum(wide - wide.max(axis=self.axis, keepdims=True), -REACH)
        elif self.op is not None:
            wide = np.clip(wide, -REACH, REACH)
        return wide


@dataclass(frozen=True, slots=True)
class Assessment:
    """How far a graph is from the float graph.

    Attributes:
        error: the power of the errors of all results by that of the results' deviations from their mean,
            added over the results and what tells more of them; infinite where one is not finite.
        outputs: what each output has lost.
        samples: on how many.
    """

    error: float
    outputs: tuple[OutputNoise, ...]
    samples: int

    def reaches(self, target_db: float) -> bool:
        """Whether all outputs have so much signal to noise."""
        return all(one.reaches(target_db) for one in self.outputs)


@dataclass(frozen=True, slots=True)
class _Values:
    """What a run makes.

    Attributes:
        telling: of each result what tells how near it is, float64.
        outputs: by name.
    """

    telling: list[np.ndarray]
    outputs: Mapping[str, np.ndarray]


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
        count = min(_wanted_samples(graph, len(samples)), max(1, (self.runs - glances) // candidates))
        places = np.linspace(0, len(samples) - 1, count).astype(int)
        self.samples = [samples[place] for place in places]
        makers = producers(graph)
        reals = [out for out in graph.outputs if graph.types[out].dtype == "float32"]
        self._telling = [each for out in reals for each in _Telling.of(out, makers)]
        self._graph, self._known = graph, list[_Values]()

    @property
    def compares(self) -> bool:
        """Whether the work allows to compare graphs, and not only to say how far one is."""
        return self.runs > 1

    def _wanted(self, count: int | None) -> list[_Values]:
        """Return what leaves the float graph on the first samples; it is run on each once."""
        left = self.samples[len(self._known) : count]
        self._known += [self._values(self._graph, sample) for sample in left]
        return self._known[:count]

    def assess(self, graph: Graph, count: int | None = None) -> Assessment:
        """Return how far a graph is from the float graph.

        Args:
            count: how many of the samples are used; None: all.
        """
        found, wanted = [self._values(graph, sample) for sample in self.samples[:count]], self._wanted(count)
        pairs = zip(_joined(wanted), _joined(found), strict=True)
        outputs = tuple(
            noise_of(name, [one.outputs[name] for one in wanted], [one.outputs[name] for one in found])
            for name in self._graph.outputs
        )
        return Assessment(sum(_relative(*pair) for pair in pairs), outputs, len(found))

    def _values(self, graph: Graph, sample: Sample) -> _Values:
        makers = producers(graph)
        names = [each.name if each.op is None else makers[each.name].inputs[0] for each in self._telling]
        seen: dict[str, np.ndarray] = dict(sample)

        def watch(_: Node, made: Mapping[str, np.ndarray]) -> None:
            seen.update((name, array) for name, array in made.items() if name in names)

        outputs = interpret(graph, sample, watch)
        telling = [each.values(seen[name]) for each, name in zip(self._telling, names, strict=True)]
        return _Values(telling, outputs)


def _wanted_samples(graph: Graph, given: int) -> int:
    """Return how many samples to compare on, if the work allows it."""
    least = min((graph.types[name].size for name in graph.outputs), default=1)
    return min(given, MOST_SAMPLES, max(ENOUGH_SAMPLES, -(-ENOUGH_ELEMENTS // max(1, least))))


def _joined(runs: Sequence[_Values]) -> list[np.ndarray]:
    """Return what tells about each result, of all runs in one."""
    every = zip(*(run.telling for run in runs), strict=True)
    return [np.concatenate([part.reshape(-1) for part in parts]) for parts in every]


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

"""The error of a quantised graph relative to the float graph, measured at its outputs on samples, within a
budget.

Graphs are compared by `Assessment.error`. For a Sigmoid or Softmax it counts both the result and the input:
where the result saturates on the samples, only the input shows the margin. `Assessment.outputs` holds the
signal-to-noise ratio of each output, for reports and for targets.

The signal of an output is its variance over all elements and samples, so a constant output carries no signal.
If the float output is constant, its power counts instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf, log10

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.macs import macs
from vdla.compiler.graph.nodes import REARRANGING, Graph, Node
from vdla.runtime.module.plan import OutputNoise

WORK = 6e10  # the budget of a judge, in multiply-accumulates
WORK_OF_ELEMENT = 64  # multiply-accumulates that an element of any operator's result costs about
ENOUGH_SAMPLES, MOST_SAMPLES = 8, 64
ENOUGH_ELEMENTS = 64  # of the smallest output over all samples: 8 samples of a scalar output say little
EPSILON = 1e-9  # bounds the relative error of results that do not vary
SATURATING = ("Sigmoid", "Softmax")  # operators whose inputs show more than their saturated results
REACH = float(np.log(512))  # inputs beyond +-REACH give results within half a step of saturation
LIMIT_DB = 400.0  # ratios are clipped to +-LIMIT_DB
LEAST_VARIATION = 1e-4  # a constant output is a fault if the float output varies by more than this share

Sample = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Probe:
    """A value that is compared between both graphs: an output, or the input of a saturating operator.

    Attributes:
        name: the output of the network, or the result of the saturating operator.
        op: the saturating operator, whose input is compared; None: the output itself is.
        axis: the axis of a Softmax.
    """

    name: str
    op: str | None = None
    axis: int = -1

    @classmethod
    def of(cls, result: str, makers: Mapping[str, Node]) -> "tuple[_Probe, ...]":
        """Return the probes of an output: the output, and the input of a saturating operator before it.

        Args:
            makers: the producer of each value.
        """
        name = result
        while name in makers and makers[name].op in (*REARRANGING, "Cast"):
            name = makers[name].inputs[0]
        maker = makers.get(name)
        if maker is None or maker.op not in SATURATING:
            return (cls(result),)
        axis = maker.integer("axis") if "axis" in maker.attributes else -1
        return cls(result), cls(name, maker.op, axis)

    def values(self, seen: np.ndarray) -> np.ndarray:
        """Return float64 values that differ where the result does; saturating inputs are clipped to
        `REACH`."""
        wide = seen.astype(np.float64)
        if self.op == "Softmax":
            wide = np.maximum(wide - wide.max(axis=self.axis, keepdims=True), -REACH)
        elif self.op is not None:
            wide = np.clip(wide, -REACH, REACH)
        return wide


@dataclass(frozen=True, slots=True)
class Assessment:
    """The error of a graph relative to the float graph.

    Attributes:
        error: ratio of the power of the error to the variance of the float values, summed over the outputs
            and the inputs of saturating operators; infinite if a value is not finite.
        outputs: the signal-to-noise ratio of each output.
        samples: the number of samples compared.
    """

    error: float
    outputs: tuple[OutputNoise, ...]
    samples: int

    def reaches(self, target_db: float) -> bool:
        """Whether the signal-to-noise ratio of every output is at least `target_db` decibels."""
        return all(output.reaches(target_db) for output in self.outputs)


@dataclass(frozen=True, slots=True)
class _Run:
    """The results of a run of a graph.

    Attributes:
        probed: the float64 value of each probe.
        outputs: the network's outputs by name.
    """

    probed: list[np.ndarray]
    outputs: Mapping[str, np.ndarray]


class Judge:
    """Compares quantised graphs with a float graph, within a budget of `WORK`.

    Args:
        graph: the float graph.
        samples: inputs; the judge uses as many as the budget allows.
        candidates: the number of graphs to compare on all used samples.
        shortlisted: the number of graphs to compare on the first sample alone.

    Attributes:
        samples: the used samples; at least 1.
        runs: the number of runs that the budget allows; 0 if a single run exceeds it.
    """

    def __init__(
        self, graph: Graph, samples: Sequence[Sample], candidates: int, shortlisted: int = 0
    ) -> None:
        self.runs = int(WORK / work(graph))
        count = min(_enough_samples(graph, len(samples)), max(1, (self.runs - shortlisted) // candidates))
        places = np.linspace(0, len(samples) - 1, count).astype(int)
        self.samples = [samples[place] for place in places]
        makers = DefUse(graph).makers
        reals = [out for out in graph.outputs if graph.types[out].dtype.startswith("float")]
        self._probes = [probe for out in reals for probe in _Probe.of(out, makers)]
        self._graph, self._known = graph, list[_Run]()

    @property
    def can_compare(self) -> bool:
        """Whether the budget allows comparisons between graphs, not only the assessment of a single graph."""
        return self.runs > 1

    def _expected(self, count: int | None) -> list[_Run]:
        """Return the runs of the float graph on the first `count` samples; each runs only once."""
        left = self.samples[len(self._known) : count]
        self._known += [self._run(self._graph, sample) for sample in left]
        return self._known[:count]

    def assess(self, graph: Graph, count: int | None = None) -> Assessment:
        """Return the error of a graph relative to the float graph.

        Args:
            count: the number of samples to use; None: all.
        """
        actual, expected = (
            [self._run(graph, sample) for sample in self.samples[:count]],
            self._expected(count),
        )
        pairs = zip(_joined(expected), _joined(actual), strict=True)
        outputs = tuple(
            noise_of(name, [run.outputs[name] for run in expected], [run.outputs[name] for run in actual])
            for name in self._graph.outputs
        )
        return Assessment(sum(_relative(*pair) for pair in pairs), outputs, len(actual))

    def _run(self, graph: Graph, sample: Sample) -> _Run:
        makers = DefUse(graph).makers
        names = [probe.name if probe.op is None else makers[probe.name].inputs[0] for probe in self._probes]
        seen: dict[str, np.ndarray] = dict(sample)

        def watch(_: Node, results: Mapping[str, np.ndarray]) -> None:
            seen.update((name, array) for name, array in results.items() if name in names)

        outputs = interpret(graph, sample, watch)
        probed = [probe.values(seen[name]) for probe, name in zip(self._probes, names, strict=True)]
        return _Run(probed, outputs)


def _enough_samples(graph: Graph, given: int) -> int:
    """Return the number of samples to compare on if the budget allows it, at most `given`."""
    least = min((graph.types[name].size for name in graph.outputs), default=1)
    return min(given, MOST_SAMPLES, max(ENOUGH_SAMPLES, -(-ENOUGH_ELEMENTS // max(1, least))))


def _joined(runs: Sequence[_Run]) -> list[np.ndarray]:
    """Return the elements of each probe, float64[n], concatenated over all runs."""
    every = zip(*(run.probed for run in runs), strict=True)
    return [np.concatenate([part.reshape(-1) for part in parts]) for parts in every]


def _relative(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the power of the error relative to the variance of the expected values."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return np.inf
    expected, actual = expected[finite], actual[finite]
    error = float(np.square(actual - expected).sum())
    return error / max(float(np.square(expected - expected.mean()).sum()), error * EPSILON) if error else 0.0


def work(graph: Graph) -> float:
    """Return an estimate of the work of a run of a graph, in multiply-accumulates."""
    elements = sum(graph.types[name].size for node in graph.nodes for name in node.outputs)
    return max(1.0, sum(macs(graph, node) for node in graph.nodes) + WORK_OF_ELEMENT * elements)


# Signal to noise


def noise_of(output: str, expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> OutputNoise:
    """Return the noise of an output.

    Args:
        output: its name.
        expected: the float output on each sample.
        actual: the quantised output on each sample.
    """
    if any(array.shape != expected[0].shape for array in (*expected, *actual)):
        return OutputNoise(output, None, measure="none")
    if expected[0].dtype.kind != "f":
        return OutputNoise(output, _differing_db(expected, actual), measure="equal")
    decibels = _decibels(_concatenated(expected), _concatenated(actual))
    return OutputNoise(output, decibels, _is_stuck(expected, actual))


def _concatenated(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.reshape(-1) for array in arrays])


def ratio_db(signal: float, noise: float) -> float:
    """Return the ratio of two powers in decibels.

    The ratio is infinite without noise. It is negative infinity if only the signal is 0, or if the noise is
    infinite.
    """
    if noise == 0:
        return inf
    if signal == 0 or noise == inf:
        return -inf
    return 10 * (log10(signal) - log10(noise))


def _kept_db(signal: float, noise: float) -> float | None:
    """Return a ratio as records store it: None without noise, else clipped to +-`LIMIT_DB`."""
    ratio = ratio_db(signal, noise)
    return None if isinf(ratio) and ratio > 0 else float(np.clip(ratio, -LIMIT_DB, LIMIT_DB))


def _decibels(expected: np.ndarray, actual: np.ndarray) -> float | None:
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return -LIMIT_DB
    signal, approximation = expected[finite].astype(np.float64), actual[finite].astype(np.float64)
    power = float(np.square(signal - signal.mean()).sum()) if signal.size else 0.0
    return _kept_db(power or float(np.square(signal).sum()), float(np.square(approximation - signal).sum()))


def _differing_db(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> float | None:
    """Return the ratio of the number of elements to the number of differing elements, in decibels."""
    pairs = zip(expected, actual, strict=True)
    differ = sum(int((before != after).sum()) for before, after in pairs)
    return _kept_db(float(sum(array.size for array in expected)), float(differ))


def _is_stuck(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray]) -> bool:
    """Whether a quantised output is equal on all samples although the float output varies."""
    if len(expected) < 2 or any((array != actual[0]).any() for array in actual):
        return False
    values = np.stack(expected).astype(np.float64)
    return bool(values.var(axis=0).sum() > LEAST_VARIATION * np.square(values).mean(axis=0).sum())

"""Quantisation that keeps accuracy: equalises channels, chooses grids, corrects biases, and leaves in float
what it is told to, each judged on samples.

Candidates are compared by what leaves the network, as far as the work allows (`judge.WORK`); a network that
is larger takes the first candidate, the grids of the least squared error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.quantisation.bias import corrected
from vdla.compiler.graph.quantisation.cases import cases_of, weights_of
from vdla.compiler.graph.quantisation.equalise import equalised
from vdla.compiler.graph.quantisation.grids import Case, Criterion, Grid, grid_of, within_percentile
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Judge
from vdla.compiler.graph.quantisation.observe import observe
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantisation.sensitivity import costly_layers, layers_named

EQUALISING_SAMPLES = 2
LONGER = 0.98  # of the error before, that a further change must stay below
COMPARED = (
    4  # about how many graphs are judged on all samples: the hopeful ones and that with corrected biases
)
HOPEFUL = 4  # times the least error on the first sample, up to which a candidate is judged on all samples

PLAIN = Options()
Samples = Sequence[Mapping[str, np.ndarray]]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised network.

    Attributes:
        graph: with QuantizeLinear and DequantizeLinear.
        roles: of the nodes of the float graph that it was made of, whose values have the same names.
        grids: of the leaders of the int8 values.
        criterion: by which the ranges of its tensors were chosen.
    """

    graph: Graph
    roles: Roles
    grids: Mapping[str, Grid]
    criterion: str

    @property
    def in_float(self) -> tuple[str, ...]:
        """The layers that were kept in float, by name."""
        nodes = (node for node in self.roles.graph.nodes if node.outputs[0] in self.roles.in_float)
        return tuple(node.name or node.outputs[0] for node in nodes)


def quantise(
    graph: Graph, samples: Samples, options: Options = PLAIN, progress: Progress = lambda text: None
) -> Quantised:
    """Return a float graph with integers around the operators that have integer forms.

    Fold batch normalisation before. `progress` is called with a text for each step of the work.

    Raises:
        GraphError: there are no samples, a value is not finite on one, the percentile is not in 0..100, or a
            layer is unknown.
    """
    if not samples:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    if options.percentile is not None and not 0 < options.percentile <= 100:
        raise GraphError(f"percentile {options.percentile} is outside 0..100")
    in_float = layers_named(graph, options.float_layers)
    found = _chosen(graph, samples, options, in_float, progress)
    if options.float_share > 0:
        progress("quantise: what each layer costs")
        costly = costly_layers(found, samples, options.float_share)
        found = _chosen(graph, samples, options, in_float | costly, progress) if costly else found
    return found


def _chosen(
    graph: Graph, samples: Samples, options: Options, in_float: frozenset[str], progress: Progress
) -> Quantised:
    """Return the best candidate."""
    progress(f"quantise: ranges on {len(samples)} samples")
    roles = Roles(equalised(Roles(graph, in_float), samples[:EQUALISING_SAMPLES]), in_float)
    observed = observe(roles.graph, samples, weights_of(roles))
    endless = {name for name, leader in roles.leaders.items() if not observed[leader].is_finite}
    if endless:  # masks, which no scale holds
        touching = {n.outputs[0] for n in graph.nodes if endless & {*n.inputs, *n.outputs}}
        return _chosen(graph, samples, options, in_float | touching, progress)
    cases = cases_of(roles, observed)
    if options.percentile is not None:
        grids = {name: within_percentile(case, options.percentile) for name, case in cases.items()}
        return _made(roles, grids, f"percentile {options.percentile:g}")
    judge = Judge(roles.graph, samples, COMPARED, len(Criterion))
    best, error = _best(roles, cases, judge, progress)
    progress("quantise: biases")
    return _corrected(best, error, judge)


def has_quantisable(graph: Graph, *, sampled: bool) -> bool:
    """Whether there is an operator that `quantise` puts integers around.

    Args:
        sampled: there are samples. Without them, products of activations alone are no reason to refuse a
            network: they run in float.
    """
    roles = Roles(graph)
    return bool(roles.narrow if sampled else roles.products)


def _made(roles: Roles, grids: Mapping[str, Grid], criterion: str) -> Quantised:
    return Quantised(with_grids(roles, grids), roles, grids, criterion)


def _best(
    roles: Roles, cases: Mapping[str, Case], judge: Judge, progress: Progress
) -> tuple[Quantised, float]:
    """Return the candidate with the least error of those that the work allows to judge, and its error; the
    first of them, and infinity, where it allows none."""
    glances = _glances(roles, cases, judge, progress)
    if len(glances) == 1:
        return glances[0][1], np.inf
    least = min(error for error, _ in glances)
    best = [(error, found) for error, found in glances if error <= HOPEFUL * least]
    if len(judge.samples) > 1:
        progress(f"quantise: {len(best)} kinds of ranges on {len(judge.samples)} samples")
        best = [(judge.error(found.graph), found) for _, found in best]
    chosen = best[0]
    for each in best[1:]:
        chosen = each if each[0] < LONGER * chosen[0] else chosen
    return chosen[1], chosen[0]


def _glances(
    roles: Roles, cases: Mapping[str, Case], judge: Judge, progress: Progress
) -> list[tuple[float, Quantised]]:
    """Return the candidates that the work allows to judge, with their errors on the first sample; at least
    one."""
    count = max(1, min(len(Criterion), judge.runs))
    found = []
    for number, criterion in enumerate(list(Criterion)[:count], 1):
        progress(f"quantise: {criterion.value}, {number} of {count} kinds of ranges")
        grids = {name: grid_of(case, criterion) for name, case in cases.items()}
        made = _made(roles, grids, criterion.value)
        found.append((judge.error(made.graph, 1) if count > 1 else np.inf, made))
    return found


def _corrected(best: Quantised, error: float, judge: Judge) -> Quantised:
    """Return a candidate with corrected biases, if that lowers its error."""
    if not np.isfinite(error):
        return best
    graph = corrected(best.roles, best.graph, judge.samples)
    if graph is best.roles.graph:
        return best
    roles = Roles(graph, best.roles.in_float)
    found = _made(roles, best.grids, best.criterion)
    return found if judge.error(found.graph) < LONGER * error else best

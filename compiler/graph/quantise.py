"""Quantisation that keeps accuracy: equalises channels, chooses grids, corrects biases, and leaves in float
what it is told to, each judged on samples.

Candidates are compared by what leaves the network, as far as the work allows (`judge.WORK`); a network that
is larger takes the first candidate, the grids of the least squared error. What is taken is always judged, and
layers stay in float until its outputs have the signal to noise that was asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.quantisation.bias import corrected
from vdla.compiler.graph.quantisation.cases import cases_of, weights_of
from vdla.compiler.graph.quantisation.equalise import equalised
from vdla.compiler.graph.quantisation.grids import Case, Criterion, Grid, grid_of, within_percentile
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Assessment, Judge
from vdla.compiler.graph.quantisation.observe import observe
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.quantisation.repair import costly_names, repaired
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantisation.sensitivity import costly_layers, layers_named
from vdla.runtime.module.plan import LOST_DB, Fidelity

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
        fidelity: how near it is to the float graph on samples.
    """

    graph: Graph
    roles: Roles
    grids: Mapping[str, Grid]
    criterion: str
    fidelity: Fidelity

    @property
    def in_float(self) -> tuple[str, ...]:
        """The layers that were kept in float, by name."""
        return _names(self.roles)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A quantised network that has been compared with the float network; attributes as those of `Quantised`.

    Attributes:
        assessment: on the samples of the judge, or on the first of them.
    """

    graph: Graph
    roles: Roles
    grids: Mapping[str, Grid]
    criterion: str
    assessment: Assessment


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
    found, judge = _chosen(graph, samples, options, in_float, progress)
    if options.float_share > 0:
        progress("quantise: what each layer costs")
        costly = costly_layers(found, samples, options.float_share)
        if costly:
            found, judge = _chosen(graph, samples, options, in_float | costly, progress)
    return _finished(found, judge, options, progress)


def _finished(found: _Candidate, judge: Judge, options: Options, progress: Progress) -> Quantised:
    """Return a candidate with the layers in float that it takes to reach the target, and what it has lost."""
    before, chosen = found.assessment, _names(found.roles)
    repair = None if options.target_db is None else repaired(found, judge, options.target_db, progress)
    if repair is not None:
        found = replace(found, graph=repair.graph, roles=repair.roles, assessment=repair.assessment)
    after = found.assessment
    fidelity = Fidelity(
        after.samples,
        after.outputs,
        options.target_db,
        repair.kept if repair is not None else (),
        chosen,
        min((one.decibels for one in before.outputs if one.decibels is not None), default=None),
        () if after.reaches(LOST_DB) else costly_names(found, judge),
    )
    return Quantised(found.graph, found.roles, found.grids, found.criterion, fidelity)


def _names(roles: Roles) -> tuple[str, ...]:
    """Return the names of the layers that stay in float."""
    nodes = (node for node in roles.graph.nodes if node.outputs[0] in roles.in_float)
    return tuple(node.name or node.outputs[0] for node in nodes)


def _chosen(
    graph: Graph, samples: Samples, options: Options, in_float: frozenset[str], progress: Progress
) -> tuple[_Candidate, Judge]:
    """Return the best candidate, and its judge."""
    progress(f"quantise: ranges on {len(samples)} samples")
    roles = Roles(equalised(Roles(graph, in_float), samples[:EQUALISING_SAMPLES]), in_float)
    observed = observe(roles.graph, samples, weights_of(roles))
    endless = {name for name, leader in roles.leaders.items() if not observed[leader].is_finite}
    if endless:  # masks, which no scale holds
        touching = {n.outputs[0] for n in graph.nodes if endless & {*n.inputs, *n.outputs}}
        return _chosen(graph, samples, options, in_float | touching, progress)
    cases = cases_of(roles, observed)
    judge = Judge(roles.graph, samples, COMPARED, len(Criterion))
    if options.percentile is not None:
        grids = {name: within_percentile(case, options.percentile) for name, case in cases.items()}
        return _judged(roles, grids, f"percentile {options.percentile:g}", judge), judge
    best = _best(roles, cases, judge, progress)
    if judge.compares and np.isfinite(best.assessment.error):
        progress("quantise: biases")
        best = _corrected(best, judge)
    return best, judge


def has_quantisable(graph: Graph, *, sampled: bool) -> bool:
    """Whether there is an operator that `quantise` puts integers around.

    Args:
        sampled: there are samples. Without them, products of activations alone are no reason to refuse a
            network: they run in float.
    """
    roles = Roles(graph)
    return bool(roles.narrow if sampled else roles.products)


def _judged(
    roles: Roles, grids: Mapping[str, Grid], criterion: str, judge: Judge, count: int | None = None
) -> _Candidate:
    """Return a candidate, compared on the first `count` samples of the judge, or on all."""
    graph = with_grids(roles, grids)
    return _Candidate(graph, roles, grids, criterion, judge.assess(graph, count))


def _best(roles: Roles, cases: Mapping[str, Case], judge: Judge, progress: Progress) -> _Candidate:
    """Return the candidate with the least error of those that the work allows to judge, compared on all
    samples of the judge."""
    glances = _glances(roles, cases, judge, progress)
    least = min(each.assessment.error for each in glances)
    best = [each for each in glances if each.assessment.error <= HOPEFUL * least]
    if len(judge.samples) > 1:
        progress(f"quantise: {len(best)} kinds of ranges on {len(judge.samples)} samples")
        best = [replace(each, assessment=judge.assess(each.graph)) for each in best]
    chosen = best[0]
    for each in best[1:]:
        chosen = each if each.assessment.error < LONGER * chosen.assessment.error else chosen
    return chosen


def _glances(roles: Roles, cases: Mapping[str, Case], judge: Judge, progress: Progress) -> list[_Candidate]:
    """Return the candidates that the work allows to judge, compared on the first sample; at least one."""
    count = max(1, min(len(Criterion), judge.runs))
    found = []
    for number, criterion in enumerate(list(Criterion)[:count], 1):
        progress(f"quantise: {criterion.value}, {number} of {count} kinds of ranges")
        grids = {name: grid_of(case, criterion) for name, case in cases.items()}
        found.append(_judged(roles, grids, criterion.value, judge, 1))
    return found


def _corrected(best: _Candidate, judge: Judge) -> _Candidate:
    """Return a candidate with corrected biases, if that lowers its error."""
    graph = corrected(best.roles, best.graph, judge.samples)
    if graph is best.roles.graph:
        return best
    roles = Roles(graph, best.roles.in_float)
    found = _judged(roles, best.grids, best.criterion, judge)
    return found if found.assessment.error < LONGER * best.assessment.error else best

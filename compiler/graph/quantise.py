"""Post-training quantisation: equalises channels, chooses grids and corrects biases, each step judged on
samples.

Candidates are compared by their outputs, within a budget of work (`judge.WORK`). A network too large for that
budget takes the first candidate: grids of least squared error. The chosen candidate is always judged. Layers
then stay in float until every output reaches the requested signal-to-noise ratio.

Sums that only normalisations and sums read are a choice: their error is part of all later sums. They are
int8 together with the normalisations. If a ratio is requested and the outputs do not reach `GOOD_DB`, the
network with both in float is tried, and chosen if it has far less error.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler.graph.integer_forms.normalisation import NORMALISATIONS
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.quantisation.corrections import with_corrected_biases, with_equalised_channels
from vdla.compiler.graph.quantisation.few_bits import few_bit_weights
from vdla.compiler.graph.quantisation.grids import (
    Calibration,
    Criterion,
    Grid,
    calibrations_of,
    error_weights,
    grid_of,
    within_percentile,
)
from vdla.compiler.graph.quantisation.insert import with_grids
from vdla.compiler.graph.quantisation.judge import Judge
from vdla.compiler.graph.quantisation.observe import observe
from vdla.compiler.graph.quantisation.options import WEIGHT_BITS, Options
from vdla.compiler.graph.quantisation.roles import Roles
from vdla.compiler.graph.quantisation.sensitivity import (
    Candidate,
    costly_layers,
    costly_names,
    layers_named,
    repaired,
)
from vdla.hw.spec.vocabulary import LEAST_WEIGHT_BITS
from vdla.runtime.module.plan import LOST_DB, Fidelity

IMPROVED = 0.98  # a later candidate must lower the error to less than this share
COMPARED = 4  # graphs judged on all samples, about: the hopeful candidates, and corrected biases
GOOD_DB = 30.0  # of outputs for which no normalisation needs to stay in float
WORTH_OF_ROWS = 0.8  # normalisations in float must lower the error to less than this share
PROMISING = 4  # candidates within this multiple of the least error on the first sample are judged on all

PLAIN = Options()
Samples = Sequence[Mapping[str, np.ndarray]]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Quantised(Candidate):
    """The chosen candidate.

    Attributes:
        fidelity: the signal-to-noise ratios of its outputs on samples.
        rows: results of the normalisations that stay in float for accuracy.
    """

    fidelity: Fidelity
    rows: frozenset[str]

    @property
    def in_float(self) -> tuple[str, ...]:
        """The layers that were kept in float, by name, other than `rows`."""
        return _names(self.roles.graph, self.roles.in_float - self.rows)


def quantise(
    graph: Graph, samples: Samples, options: Options = PLAIN, progress: Progress = lambda text: None
) -> Quantised:
    """Quantise a float graph: conversions to int8 surround the operators that have integer forms.

    Args:
        graph: a float graph; fold its batch normalisations first.
        samples: inputs to calibrate and to judge on.
        options: which layers stay in float, and how ranges are chosen.
        progress: called with a line of text for each step.

    Raises:
        GraphError: there are no samples, a value is not finite on a sample, the percentile or the bits of
            weights are outside their range, or a layer in `options` is unknown.
    """
    if not samples:
        raise GraphError(f"graph {graph.name} cannot be calibrated without samples")
    if options.percentile is not None and not 0 < options.percentile <= 100:
        raise GraphError(f"percentile {options.percentile} is outside 0..100")
    if not LEAST_WEIGHT_BITS <= options.weight_bits <= WEIGHT_BITS:
        allowed = f"{LEAST_WEIGHT_BITS}..{WEIGHT_BITS}"
        raise GraphError(f"weight_bits = {options.weight_bits} is outside {allowed}")
    in_float = layers_named(graph, options.float_layers)
    candidate, judge = _choose(graph, samples, options, in_float, progress)
    if options.float_share > 0:
        progress("quantise: error of each layer")
        costly = costly_layers(candidate, samples, options.float_share)
        if costly:
            candidate, judge = _choose(graph, samples, options, in_float | costly, progress)
    chosen = candidate.roles.in_float
    rows = _rows_by_choice(candidate.roles)
    if rows and options.target_db is not None and not candidate.assessment.reaches(GOOD_DB):
        progress("quantise: normalisations in float")
        other, its_judge = _choose(graph, samples, options, chosen | rows, progress)
        if other.assessment.error < WORTH_OF_ROWS * candidate.assessment.error:
            candidate, judge = other, its_judge
    return _repaired(candidate, judge, options, chosen, progress)


def _rows_by_choice(roles: Roles) -> frozenset[str]:
    """Return the results of the normalisations whose input is int8 for normalisations alone."""
    every = frozenset(
        node.result for node in roles.graph.nodes if node.op in NORMALISATIONS and node.result in roles.others
    )
    without = Roles(roles.graph, roles.in_float | every, roles.weights)
    return frozenset(name for name in every if roles.makers[name].inputs[0] not in without.narrow)


def _repaired(
    candidate: Candidate, judge: Judge, options: Options, chosen: frozenset[str], progress: Progress
) -> Quantised:
    """Return a candidate with enough layers in float to reach the target, and its fidelity.

    Args:
        chosen: results of the operators in float, other than normalisations for accuracy.
    """
    before, rows = candidate.assessment, candidate.roles.in_float - chosen
    repair = None if options.target_db is None else repaired(candidate, judge, options.target_db, progress)
    if repair is not None:
        candidate = repair.candidate
    after = candidate.assessment
    fidelity = Fidelity(
        after.samples,
        after.outputs,
        options.target_db,
        repair.kept if repair is not None else (),
        _names(candidate.roles.graph, chosen),
        min((output.decibels for output in before.outputs if output.decibels is not None), default=None),
        () if after.reaches(LOST_DB) else costly_names(candidate, judge),
    )
    return Quantised(
        candidate.graph, candidate.roles, candidate.grids, candidate.criterion, after, fidelity, rows
    )


def _names(graph: Graph, results: Collection[str]) -> tuple[str, ...]:
    """Return the names of the layers that compute `results`."""
    return tuple(dict.fromkeys(node.layer for node in graph.nodes if node.result in results))


def _choose(
    graph: Graph, samples: Samples, options: Options, in_float: frozenset[str], progress: Progress
) -> tuple[Candidate, Judge]:
    """Return the best candidate, and its judge."""
    progress(f"quantise: ranges on {len(samples)} samples")
    roles = Roles(with_equalised_channels(Roles(graph, in_float), samples), in_float)
    if options.weight_bits < WEIGHT_BITS:
        progress(f"quantise: weights of {options.weight_bits} bits")
        weights = few_bit_weights(roles, samples, options.weight_bits)
        roles = Roles(roles.graph, in_float, weights)
    observed = observe(roles.graph, samples, error_weights(roles), roles.leaders)
    endless = {name for name, leader in roles.leaders.items() if not observed[leader].is_finite}
    if endless:  # attention masks with infinite elements, which no scale can represent
        touching = {n.result for n in graph.nodes if endless & {*n.inputs, *n.outputs}}
        return _choose(graph, samples, options, in_float | touching, progress)
    calibrations = calibrations_of(roles, observed)
    judge = Judge(roles.graph, samples, COMPARED, len(Criterion))
    if options.percentile is not None:
        grids = {
            name: within_percentile(calibration, options.percentile)
            for name, calibration in calibrations.items()
        }
        return _candidate_of(roles, grids, f"percentile {options.percentile:g}", judge), judge
    best = _best_candidate(roles, calibrations, judge, progress)
    if judge.can_compare and np.isfinite(best.assessment.error):
        progress("quantise: biases")
        best = _corrected(best, judge)
    return best, judge


def has_quantisable(graph: Graph, *, sampled: bool) -> bool:
    """Whether a graph has an operator that `quantise` gives an integer form.

    Args:
        sampled: whether calibration samples exist. Without samples, products of two activations do not
            count: they run in float.
    """
    roles = Roles(graph)
    return bool(roles.narrow if sampled else roles.products)


def _candidate_of(
    roles: Roles, grids: Mapping[str, Grid], criterion: str, judge: Judge, count: int | None = None
) -> Candidate:
    """Return a candidate, compared on the first `count` samples of the judge, or on all."""
    graph = with_grids(roles, grids)
    return Candidate(graph, roles, grids, criterion, judge.assess(graph, count))


def _best_candidate(
    roles: Roles, calibrations: Mapping[str, Calibration], judge: Judge, progress: Progress
) -> Candidate:
    """Return the candidate with the least error within the judge's budget, compared on all its samples."""
    candidates = _candidates(roles, calibrations, judge, progress)
    least = min(each.assessment.error for each in candidates)
    best = [each for each in candidates if each.assessment.error <= PROMISING * least]
    if len(judge.samples) > 1:
        progress(f"quantise: {len(best)} kinds of ranges on {len(judge.samples)} samples")
        best = [replace(each, assessment=judge.assess(each.graph)) for each in best]
    chosen = best[0]
    for each in best[1:]:
        chosen = each if each.assessment.error < IMPROVED * chosen.assessment.error else chosen
    return chosen


def _candidates(
    roles: Roles, calibrations: Mapping[str, Calibration], judge: Judge, progress: Progress
) -> list[Candidate]:
    """Return as many candidates as the judge's budget allows, at least 1, compared on the first sample."""
    count = max(1, min(len(Criterion), judge.runs))
    candidates = []
    for number, criterion in enumerate(list(Criterion)[:count], 1):
        progress(f"quantise: {criterion.value}, {number} of {count} kinds of ranges")
        grids = {name: grid_of(calibration, criterion) for name, calibration in calibrations.items()}
        candidates.append(_candidate_of(roles, grids, criterion.value, judge, 1))
    return candidates


def _corrected(best: Candidate, judge: Judge) -> Candidate:
    """Return the candidate with corrected biases if they lower its error, else `best`."""
    graph = with_corrected_biases(best.roles, best.graph, judge.samples)
    if graph is best.roles.graph:
        return best
    roles = Roles(graph, best.roles.in_float, best.roles.weights)
    candidate = _candidate_of(roles, best.grids, best.criterion, judge)
    return candidate if candidate.assessment.error < IMPROVED * best.assessment.error else best

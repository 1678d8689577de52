"""Values of a graph on demand equal its evaluation, in any order, and are freed after their last use."""

import re
import threading

import pytest

from tests.compiler.network.compiled import handmade
from vdla.prove.domain import Domain
from vdla.prove.errors import ProofError
from vdla.prove.reference import MOST_AHEAD, DemandedValues, ValuesAhead, inputs_of, steps


def test_values_are_those_of_the_evaluation_in_any_order():
    graph, domain = handmade("residual")[0], Domain(3)
    expected = inputs_of(domain, graph)
    for _, results in steps(domain, graph):
        expected |= results
    names = list(expected)
    for order in (names, names[::-1], [*names, *names]):
        demanded = DemandedValues(domain, graph, order)
        for name in order:
            assert (demanded.take(name) == expected[name]).all(), name


def test_values_are_freed_after_their_last_use():
    graph = handmade("residual")[0]
    demanded = DemandedValues(Domain(3), graph, [graph.nodes[-1].result] * 2)
    first = demanded.take(graph.nodes[-1].result)
    assert set(demanded._values) == {graph.nodes[-1].result}
    assert demanded.take(graph.nodes[-1].result) is first
    assert not demanded._values


def test_constants_and_unknown_names():
    graph, domain = handmade("residual")[0], Domain(3)
    demanded = DemandedValues(domain, graph, [])
    name, array = next((name, array) for name, array in graph.constants.items() if array.dtype == "int8")
    assert (demanded.take(name) == domain.constants(array)).all()
    with pytest.raises(ProofError, match=re.escape("has no value 'V', which the plan compares")):
        demanded.take("V")


def test_values_are_computed_ahead_in_the_order_in_which_they_are_taken():
    graph, domain = handmade("residual")[0], Domain(3)
    names = [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]
    plain, demanded = DemandedValues(domain, graph, names), DemandedValues(domain, graph, names)
    with ValuesAhead(demanded, names) as ahead:
        for name in names:
            assert (ahead.take(name) == plain.take(name)).all(), name
        assert not ahead._waiting
    with ValuesAhead(DemandedValues(domain, graph, names), names) as ahead:
        assert len(ahead._waiting) == MOST_AHEAD
        with pytest.raises(AssertionError, match="is taken before"):
            ahead.take(names[1])


def test_an_error_of_a_value_is_raised_where_it_is_taken_and_the_thread_ends():
    graph, before = handmade("residual")[0], threading.active_count()
    first = next(iter(graph.inputs))
    with ValuesAhead(DemandedValues(Domain(3), graph, [first]), [first, "V", first]) as ahead:
        assert ahead.take(first).shape == graph.types[first].shape
        assert threading.active_count() == before + 1
        with pytest.raises(ProofError, match=re.escape("has no value 'V', which the plan compares")):
            ahead.take("V")
    assert threading.active_count() == before

"""Values of a graph on demand are those of its evaluation, in any order, and are freed after their last use."""

import re

import pytest

from tests.compiler.network.compiled import handmade
from vdla.prove.domain import Domain
from vdla.prove.errors import ProofError
from vdla.prove.reference import DemandedValues, inputs_of, steps


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

"""The greatest of elements has one form."""

import itertools

import numpy as np
import pytest

from tests.prove.assignments import Assignments
from vdla.compiler.graph.integers import Quantisation, scaling
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.functions import BYTES, ZERO


def equal(left, right):
    return bool((left == right).all())


def element(domain, name, table=BYTES):
    return domain.apply(domain.fresh(name, (1,)), domain.functions.number(np.asarray(table)))


def greatest(domain, *members):
    return domain.maximum(np.stack(members))


@pytest.mark.parametrize("seed", range(12))
def test_greatest_and_least_of_random_elements(seed):
    assignments = Assignments(rng=np.random.default_rng(seed))
    domain = assignments.domain
    x, values = assignments.mixed("x", (5, 40))
    once, twice = domain.maximum(x[:2]), domain.maximum(x[2:])
    assignments.check(x, values)
    assignments.check(once, values[:, :2].max(1))
    assignments.check(domain.maximum(np.stack((once, twice))), values.max(1))
    assignments.check(domain.minimum(x), values.min(1))
    lowered = domain.apply(domain.minimum(x), domain.functions.number(np.minimum(BYTES, 30)))
    assignments.check(lowered, np.minimum(values.min(1), 30))
    assignments.check(
        domain.maximum(np.stack((lowered, once))), np.maximum(lowered_of(values), values[:, :2].max(1))
    )


def lowered_of(values):
    return np.minimum(values.min(1), 30)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
def test_order_nesting_and_repetition_do_not_count(order):
    domain = Domain(1)
    members = [element(domain, name) for name in "wxyz"]
    whole = greatest(domain, *members)
    a, b, c, d = (members[place] for place in order)
    assert equal(greatest(domain, greatest(domain, a, b, a), greatest(domain, b, c, d)), whole)
    assert equal(greatest(domain, whole, c), whole)
    assert not equal(greatest(domain, a, b, c), whole)


def test_padding_does_not_count():
    domain = Domain(1)
    x, y, padding = element(domain, "x"), element(domain, "y"), domain.constants(np.array([-128]))
    assert equal(greatest(domain, x, padding), x)
    assert equal(greatest(domain, x, padding, y), greatest(domain, x, y))
    assert not equal(greatest(domain, x, domain.constants(np.array([-127])), y), greatest(domain, x, y))


def test_constants_are_joined_with_every_member():
    domain = Domain(1)
    x, y, bound = element(domain, "x"), element(domain, "y"), domain.constants(np.array([5]))
    clipped = element(domain, "x", np.maximum(BYTES, 5))
    assert equal(greatest(domain, x, y, bound), greatest(domain, clipped, y))
    assert equal(greatest(domain, x, bound), clipped)
    assert equal(greatest(domain, x, y, domain.constants(np.array([127]))), domain.constants(np.array([127])))


def test_functions_of_one_root_become_one():
    domain = Domain(1)
    tables = np.random.default_rng(1).integers(-128, 128, (3, 256))
    members = [element(domain, "x", table) for table in tables]
    assert equal(greatest(domain, *members), element(domain, "x", tables.max(0)))


def test_functions_that_never_decrease_move_to_the_members():
    domain = Domain(1)
    x, y, relu = element(domain, "x"), element(domain, "y"), domain.functions.number(np.maximum(BYTES, 0))
    after = domain.apply(greatest(domain, x, y), relu)
    assert Axiom.MONOTONE_OF_GREATEST in domain.axioms
    assert equal(after, greatest(domain, domain.apply(x, relu), domain.apply(y, relu)))
    assert equal(after, greatest(domain, domain.apply(x, relu), y))


def test_functions_that_never_increase_exchange_greatest_and_least():
    domain = Domain(1)
    falling = domain.functions.number(-(BYTES // 2))
    members = np.stack([element(domain, name) for name in "xyz"])
    assert equal(
        domain.apply(domain.maximum(members), falling), domain.minimum(domain.apply(members, falling))
    )
    assert equal(
        domain.apply(domain.minimum(members), falling), domain.maximum(domain.apply(members, falling))
    )
    assert not equal(domain.maximum(members), domain.minimum(members))


@pytest.mark.parametrize("slope", [1000, -1000])
def test_functions_beyond_bytes_move_to_the_members(slope):
    """So do tables of floats, whose values are bits."""
    domain = Domain(1)
    wide = np.array(domain.functions.number(slope * BYTES), np.int32)
    members = np.stack([element(domain, name) for name in "xyz"])
    operation = domain.maximum if slope > 0 else domain.minimum
    assert equal(domain.apply(operation(members), wide), domain.maximum(domain.apply(members, wide)))


EXACTLY = scaling(np.ones(1), 0, Quantisation(1.0, 0))
"""Parameters of a requantisation that changes no byte."""
PARTS = {
    "rise": (np.minimum(BYTES, 0), np.maximum(BYTES, 0)),
    "fall": (np.minimum(~BYTES, 0), np.maximum(~BYTES, 0)),
    "one rises": (np.minimum(BYTES, 5), np.maximum(~BYTES, 9)),
    "one does neither": (np.maximum(BYTES, 0), np.abs(BYTES // 2)),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("halved", [False, True])
def test_sums_of_functions_of_a_set_are_functions_of_it(name, halved):
    domain = Domain(1)
    whole = greatest(domain, element(domain, "x"), element(domain, "y"))
    if halved:
        whole = domain.apply(whole, domain.functions.number(BYTES // 2))
    parts = [domain.apply(whole, domain.functions.number(table)) for table in PARTS[name]]
    total = domain.add(*map(domain.values, parts))
    single = domain.apply(whole, domain.functions.number(np.clip(np.sum(PARTS[name], 0), -128, 127)))
    assert equal(domain.requantise(total, EXACTLY), domain.requantise(domain.values(single), EXACTLY))
    other = domain.add(*map(domain.values, (parts[0], parts[0])))
    assert not equal(domain.requantise(other, EXACTLY), domain.requantise(domain.values(single), EXACTLY))


NARROW = {
    "below 106": np.minimum(BYTES, 105),
    "above -90": np.maximum(BYTES, -90),
    "between": np.clip(BYTES // 2, -50, 40),
    "falls": np.clip(-BYTES, -9, 90),
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("zero", [-22, 30])
def test_a_set_less_a_number_is_the_sum_of_its_bytes(name, zero):
    """One of the bytes may be 0 for all values that the set can take."""
    domain = Domain(1)
    whole = greatest(domain, *(element(domain, each, NARROW[name]) for each in "xy"))
    less = BYTES - zero
    low = np.clip(less, -128, 127)
    parts = [domain.apply(whole, domain.functions.number(table)) for table in (low, less - low)]
    factor = domain.values(element(domain, "z"))
    products = [
        domain.requantise(domain.multiply(domain.add(*map(domain.values, summands)), factor), EXACTLY)
        for summands in (parts, (whole, domain.constants(np.array([-zero]))))
    ]
    assert equal(*products)
    other = domain.multiply(domain.values(parts[0]), factor)
    assert equal(domain.requantise(other, EXACTLY), products[0]) == (
        not np.any((less - low)[NARROW[name] + ZERO])
    )


TABLES = {
    "rises": np.clip(BYTES, -20, 50),
    "falls": np.clip(-BYTES, -9, 90),
    "neither": np.abs(BYTES // 2),
    "rises in part": np.where(BYTES < 0, BYTES // 2, 127 - BYTES),
}


@pytest.mark.parametrize("outer", TABLES)
@pytest.mark.parametrize("inner", TABLES)
def test_functions_of_functions_of_a_set_are_functions_of_it(inner, outer):
    domain = Domain(1)
    inner_number, outer_number = (
        np.array(domain.functions.number(TABLES[name]), np.int32) for name in (inner, outer)
    )
    whole = greatest(domain, *(element(domain, name) for name in "xyz"))
    together = domain.functions.composed(outer_number, inner_number)
    assert equal(domain.apply(domain.apply(whole, inner_number), outer_number), domain.apply(whole, together))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", TABLES)
def test_a_set_has_one_form(name, first):
    """It does not matter whether the set of the results appears first, or as a function of another set."""
    domain = Domain(1)
    members, more = np.stack([element(domain, each) for each in "xyz"]), element(domain, "w")
    table = domain.functions.number(TABLES[name])
    extreme = domain.minimum if name == "falls" else domain.maximum
    alone = extreme(domain.apply(members, table)) if first else None
    part = domain.apply(domain.maximum(members), table)
    alone = extreme(domain.apply(members, table)) if alone is None else alone
    assert equal(part, alone) == (name in ("rises", "falls"))
    assert equal(greatest(domain, part, more), greatest(domain, more, part, part))
    if name == "rises":
        assert equal(greatest(domain, part, more), greatest(domain, *domain.apply(members, table), more))


def test_functions_of_a_set_whose_greatest_rises_move_to_the_members():
    domain = Domain(1)
    members = np.stack([element(domain, name) for name in "xy"])
    waves = [np.where(BYTES & 1 ^ rest, BYTES, -128) for rest in (0, 1)]
    parts = [domain.apply(domain.maximum(members), domain.functions.number(wave)) for wave in waves]
    assert equal(greatest(domain, *parts), domain.maximum(members))
    third = element(domain, "z")
    assert equal(greatest(domain, *parts, third), greatest(domain, *members, third))


def test_a_function_of_a_set_that_rises_above_another_member_moves_to_the_members():
    domain = Domain(1)
    members, other = np.stack([element(domain, name) for name in "xy"]), element(domain, "z", BYTES | 64)
    bound = int((BYTES | 64).min())
    wave = np.where(bound >= BYTES, (bound - BYTES) // 2 - 128, BYTES)
    part = domain.apply(domain.maximum(members), domain.functions.number(wave))
    above = domain.apply(members, domain.functions.number(np.maximum(wave, bound)))
    assert equal(greatest(domain, part, other), greatest(domain, *above, other))


def test_other_functions_stay_outside():
    domain = Domain(1)
    square = domain.functions.number(np.minimum(BYTES * BYTES, 127))
    members = np.stack([element(domain, name) for name in "xy"])
    outside = domain.apply(domain.maximum(members), square)
    assert not equal(outside, domain.maximum(domain.apply(members, square)))
    assert equal(outside, domain.apply(domain.maximum(members[::-1]), square))
    assert Axiom.MONOTONE_OF_GREATEST not in domain.axioms


def test_large_sets():
    domain = Domain(1)
    x = domain.fresh("x", (50, 300))
    whole = domain.maximum(x)
    assert len(np.unique(whole)) == 300
    shuffled = np.random.default_rng(1).permuted(x, axis=0)
    assert equal(domain.maximum(shuffled), whole)
    assert equal(domain.maximum(np.stack((domain.maximum(x[:20]), domain.maximum(x[15:])))), whole)


def test_the_form_of_a_set_does_not_depend_on_the_sets_that_are_computed_with_it():
    domain = Domain(1)
    x = domain.fresh("x", (3, 5))
    x[1, 1] = x[0, 1]  # repeated
    x[:, 2] = domain.constants(np.array([3, -7, 5]))
    x[2, 3] = domain.constants(np.array(-128))
    x[1, 4] = domain.apply(x[:1, 4], domain.functions.number(np.maximum(BYTES, 9)))[0]
    whole = domain.maximum(x)
    for place in range(x.shape[1]):
        assert equal(whole[place : place + 1], domain.maximum(x[:, place : place + 1]))
    assert whole[2] == domain.constants(np.array(5))

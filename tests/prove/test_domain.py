"""Sums and requantisation of elements: equal functions are equal elements, and others are not."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.prove.assignments import Assignments
from vdla.hw.spec import numerics
from vdla.prove.axioms import Axiom
from vdla.prove.domain import Domain
from vdla.prove.elements import NO_ROOT, PRIMES, RESIDUES, SEVERAL, Sums, as_channels, reduced, undefined
from vdla.prove.errors import ProofError
from vdla.prove.functions import BYTES, IDENTITY
from vdla.runtime.requantise import parameter_words, requantise

WORDS = parameter_words(np.array([100]), np.array([77]), np.array([9]), 3, -128, 127)


def equal(left, right):
    return bool((left == right).all())


def several(domain, shape=(4,)):
    """Return sums of two roots each."""
    x, y = (domain.values(domain.fresh(name, shape)) for name in "xy")
    return domain.add(domain.scale(x, np.array(3)), domain.scale(y, np.array(-5)))


def words(**changes):
    fields = {"bias": 100, "multiplier": 77, "shift": 9, "zero": 3, "least": -128, "greatest": 127}
    return parameter_words(*(np.array([value]) for value in (fields | changes).values()))


def test_equal_names_are_equal_elements():
    domain = Domain(1)
    assert equal(domain.fresh("x", (2, 3)), domain.fresh("x", (2, 3)))
    assert not (domain.fresh("x", (2, 3)) == domain.fresh("y", (2, 3))).any()
    assert len(np.unique(domain.fresh("x", (2, 3)))) == 6


def test_the_seed_decides_the_residues():
    residues = [Domain(seed).values(Domain(seed).fresh("x", (5,))).residues for seed in (1, 1, 2)]
    np.testing.assert_array_equal(residues[0], residues[1])
    assert (residues[0] != residues[2]).all()


def test_the_identity_has_the_first_pseudo_random_residue():
    domain = Domain(1)
    matrices = domain._coefficients_of_functions()[IDENTITY]
    np.testing.assert_array_equal(matrices, [[0, 1, 0]] * RESIDUES)


def test_functions_of_a_byte_that_add_up_add_up_in_residues():
    domain = Domain(1)
    x, rng = domain.fresh("x", (50,)), np.random.default_rng(2)
    first, second = rng.integers(-128, 128, (2, 256))
    parts = [domain.values(domain.apply(x, domain.functions.number(each))) for each in (first, second)]
    number = domain.functions.number(3 * first - 7 * second)
    whole = domain.values(domain.of_functions(x, np.full(50, number, np.int32)))
    total = domain.add(*(domain.scale(each, np.array(f)) for each, f in zip(parts, (3, -7), strict=True)))
    np.testing.assert_array_equal(reduced(total.residues - whole.residues), 0)
    assert equal(total.source, whole.source)


def test_residues_follow_the_secret_point():
    """A residue is the value for the byte 0 plus the coefficients times the residues of the root."""
    domain = Domain(1)
    x = domain.fresh("x", (1,))
    table = np.random.default_rng(3).integers(-128, 128, 256)
    number = domain.functions.number(table)
    byte = domain.values(x).residues[:, 0]
    for place, prime in enumerate(PRIMES):
        matrix = domain._matrices[place]
        assert int(BYTES @ matrix[:, 0]) % prime == 1
        assert sum(int(b) * int(m) for b, m in zip(BYTES, matrix[:, 1], strict=True)) % prime == 0
        coefficients = [
            sum((int(t) - int(table[128])) * int(m) for t, m in zip(table, column, strict=True)) % prime
            for column in matrix.T
        ]
        assert domain._coefficients_of_functions()[number, place].tolist() == [
            int(table[128]) % prime,
            *coefficients,
        ]
    assert (np.abs(byte) <= np.array(PRIMES) // 2).all()


def test_sums_do_not_depend_on_the_order_of_their_terms():
    domain = Domain(1)
    x, y, z = (domain.values(domain.fresh(name, (4,))) for name in "xyz")
    left = domain.add(domain.add(x, y), z)
    right = domain.add(domain.add(z, x), y)
    assert equal(domain.requantise(left, WORDS), domain.requantise(right, WORDS))


@pytest.mark.parametrize(
    "other",
    [
        lambda domain, x, y: domain.add(domain.scale(x, np.array(-5)), domain.scale(y, np.array(3))),
        lambda domain, x, y: domain.add(domain.scale(x, np.array(3)), domain.scale(y, np.array(-4))),
        lambda domain, x, y: domain.scale(x, np.array(3)),
        lambda domain, x, y: domain.add(several(domain), domain.values(domain.constants(np.array(1)))),
        lambda domain, x, y: domain.multiply(x, y),
    ],
    ids=["swapped", "factor", "missing term", "constant", "product"],
)
def test_different_sums_are_different_elements(other):
    domain = Domain(1)
    x, y = (domain.values(domain.fresh(name, (4,))) for name in "xy")
    left, right = (domain.requantise(each, WORDS) for each in (several(domain), other(domain, x, y)))
    assert not (left == right).any()


@pytest.mark.parametrize(
    "change", [{"bias": 99}, {"multiplier": 79}, {"shift": 10}, {"zero": 4}, {"least": -127}, {"greatest": 9}]
)
def test_every_parameter_counts(change):
    domain = Domain(1)
    sums = several(domain)
    assert not (domain.requantise(sums, words()) == domain.requantise(sums, words(**change))).any()


def test_a_bias_is_the_same_before_and_in_the_requantisation():
    domain = Domain(1)
    sums = domain.add(several(domain), domain.values(domain.constants(np.array(100))))
    assert equal(domain.requantise(sums, words(bias=0)), domain.requantise(several(domain), words()))


def test_a_bias_counts_modulo_more_than_a_prime():
    domain = Domain(1)
    results = [domain.requantise(several(domain), words(bias=bias)) for bias in (5, 5 + PRIMES[0])]
    assert not (results[0] == results[1]).any()


def test_bits_beyond_the_fields_of_parameters_do_not_count():
    domain = Domain(1)
    other = words()
    other[1] |= 1 << 20
    assert equal(domain.requantise(several(domain), words()), domain.requantise(several(domain), other))


def test_products_do_not_commute_with_their_functions():
    """T(x) U(y) differs from U(x) T(y), which a single residue per root would confuse."""
    domain = Domain(1)
    tables = np.random.default_rng(4).integers(-128, 128, (2, 256))
    t, u = (domain.functions.number(table) for table in tables)
    x, y = domain.fresh("x", (4,)), domain.fresh("y", (4,))
    left, right = (
        domain.multiply(domain.values(domain.apply(x, first)), domain.values(domain.apply(y, second)))
        for first, second in ((t, u), (u, t))
    )
    assert (reduced(left.residues - right.residues) != 0).all()


def test_the_product_of_a_byte_with_itself_is_a_function_of_it():
    domain = Domain(1)
    x = domain.values(domain.fresh("x", (4,)))
    squares = domain.requantise(domain.multiply(x, x), WORDS)
    table = requantise(BYTES * BYTES, WORDS)
    assert equal(squares, domain.apply(domain.fresh("x", (4,)), domain.functions.number(table)))


def test_products_of_three_are_refused():
    domain = Domain(1)
    x, y, z = (domain.values(domain.fresh(name, (4,))) for name in "xyz")
    with pytest.raises(ProofError, match=r"degree 3 .* covers degrees up to 2"):
        domain.multiply(domain.multiply(x, y), z)
    domain.multiply(domain.multiply(x, y), domain.values(domain.constants(np.array(3))))


def test_requantised_functions_of_a_root_are_functions_of_it():
    assignments = Assignments()
    domain = assignments.domain
    x, values = assignments.mixed("x", (30,))
    sums = domain.scale(domain.values(x), np.array(91))
    scaled = values.astype(np.int64) * 91
    assignments.check(domain.requantise(sums, WORDS), requantise(scaled, WORDS[:, None]))
    roots = domain.requantise(sums, WORDS)
    assert set(roots["kind"].tolist()) <= {NO_ROOT, *x["kind"].tolist()}


def test_wrapping_counts_in_functions_of_a_root():
    domain = Domain(1)
    x = domain.values(domain.fresh("x", (1,)))
    (element,) = domain.requantise(x, words(bias=(1 << 31) - 1, multiplier=1, shift=25), 32)
    expected = [
        numerics.requantise(int(byte), words(bias=(1 << 31) - 1, multiplier=1, shift=25)[:, 0].tolist(), 32)
        for byte in BYTES
    ]
    assert domain.functions.values[element["function"]].tolist() == expected


def test_parameters_that_give_one_value_make_constants():
    domain = Domain(1)
    for changes, constant in (
        ({"multiplier": 0}, 3),
        ({"least": 5, "greatest": 5}, 5),
        ({"least": 9, "greatest": 2}, 9),
    ):
        assert equal(
            domain.requantise(several(domain), words(**changes)), domain.constants(np.array(constant))
        )


def test_parameters_differ_between_channels():
    domain = Domain(1)
    x, y = (domain.values(domain.fresh(name, (2, 3, 4))) for name in "xy")
    sums = domain.add(x, y)
    rows = np.concatenate([words(bias=bias, least=-bias) for bias in (1, 2, 3)], 1)
    whole = domain.requantise(sums, rows[:, :, None])
    for channel in range(3):
        part = Sums(sums.residues[:, :, channel], None, sums.reach, sums.offset)
        assert equal(whole[:, channel], domain.requantise(part, rows[:, channel, None, None]))


@pytest.mark.parametrize(
    ("fields", "shape", "expected"),
    [
        ((4, 1, 1), (2, 3), (1, 2, 3)),
        ((4, 1, 3, 1, 1), (2, 3, 5, 7), (2, 3, 35)),
        ((4, 1, 3, 5), (2, 3, 5), (2, 15, 1)),
        ((4, 2, 1, 5), (2, 3, 5), (1, 30, 1)),
    ],
)
def test_channels_are_the_axes_along_which_parameters_differ(fields, shape, expected):
    values = np.random.default_rng(5).integers(0, 9, fields)
    compact, sizes = as_channels(values, shape)
    assert sizes == expected
    spread = np.broadcast_to(compact[:, None, :, None], (4, *sizes)).reshape(4, *shape)
    np.testing.assert_array_equal(spread, np.broadcast_to(values, (4, *shape)))


def test_a_residual_that_cannot_wrap_is_a_requantised_sum():
    domain = Domain(1)
    value, residual = domain.fresh("v", (6,)), domain.fresh("r", (6,))
    parameters = np.array(numerics.residual_parameters(1000, (311, -208), 9, 3, -100, 100))[:, None]
    added = domain.add_residual(value, domain.values(residual), parameters)
    total = domain.add(
        domain.scale(domain.values(value), np.array(311)),
        domain.scale(domain.values(residual), np.array(-208)),
    )
    expected = domain.requantise(total, words(bias=1000, multiplier=1, shift=9, least=-100, greatest=100))
    assert equal(added, expected)
    assert Axiom.RESIDUAL_AS_SUM in domain.axioms


def test_a_residual_of_the_same_root_is_a_function_of_it():
    domain = Domain(1)
    (value,) = x = domain.fresh("v", (1,))
    parameters = numerics.residual_parameters((1 << 31) - 1, (32767, 32767), 25, 3, -128, 127)
    (element,) = domain.add_residual(x, domain.values(x), np.array(parameters)[:, None])
    expected = [numerics.add_residual(int(byte), int(byte), parameters) for byte in BYTES]
    assert domain.functions.values[element["function"]].tolist() == expected
    assert Axiom.RESIDUAL_AS_SUM not in domain.axioms
    assert element["lo"] == value["lo"]


@pytest.mark.parametrize(
    "use",
    [
        lambda domain, bytes_: domain.values(bytes_),
        lambda domain, bytes_: domain.apply(bytes_, domain.functions.number(BYTES // 2)),
        lambda domain, bytes_: domain.maximum(bytes_),
        lambda domain, bytes_: domain.minimum(bytes_),
        lambda domain, bytes_: domain.add_residual(bytes_[:1], domain.values(bytes_[1:2]), WORDS),
    ],
)
def test_undefined_bytes_are_not_used(use):
    domain = Domain(1)
    use(domain, domain.fresh("x", (3,)))
    with pytest.raises(ProofError, match="nothing has defined"):
        use(domain, undefined((3,)))


def test_the_bound_counts_pairs_of_sums():
    domain = Domain(1)
    assert domain.failure_probability == 0
    domain.requantise(several(domain, (1000,)), WORDS)
    pairs = 1000 * 999 / 2
    assert math.isclose(domain.failure_probability, pairs * (2 / 2**30) ** 4, rel_tol=1e-6)
    domain.requantise(several(domain, (1000,)), words(zero=9))
    assert math.isclose(domain.failure_probability, 2 * pairs * (2 / 2**30) ** 4, rel_tol=1e-6)


def test_large_coefficients_weaken_the_bound():
    domain = Domain(1)
    sums = several(domain, (1000,))
    domain.requantise(Sums(sums.residues, None, PRIMES[0], 0), WORDS)
    assert math.isclose(domain.failure_probability, 1000 * 999 / 2 * (2 / 2**30) ** 3, rel_tol=1e-6)
    with pytest.raises(ProofError, match="coefficients of up to"):
        domain.requantise(Sums(sums.residues, None, math.prod(PRIMES), 0), WORDS)


@pytest.mark.parametrize("origin", [-128, 0, 100])
@pytest.mark.parametrize("shared", [True, False])
def test_the_reach_of_products_bounds_values_and_coefficients(origin, shared):
    """The indicators of a root's values other than 0 have the coefficients."""
    domain, rng = Domain(1), np.random.default_rng(1)
    tables = np.stack([np.where(BYTES == 0, origin, each) for each in rng.integers(-128, 128, (2, 256))])
    tables[:, :2] = [[-128, 127], [127, -128]]
    x, y = domain.fresh("x", (1,)), domain.fresh("x" if shared else "y", (1,))
    left, right = (
        domain.values(domain.apply(each, domain.functions.number(table)))
        for each, table in zip((x, y), tables, strict=True)
    )
    product = domain.multiply(left, right)
    differences = tables - origin
    coefficients = np.multiply.outer(*differences)
    both = coefficients + coefficients.T if shared else coefficients
    single = origin * differences
    largest = max(np.abs(both).max(), np.abs(single[0] + single[1]).max(), np.abs(single).max())
    assert product.reach >= largest
    assert product.reach + product.offset >= np.abs(np.multiply.outer(*tables)).max()
    assert product.reach <= 3 * 255 * 255


@pytest.mark.parametrize("operation", [Domain.add, Domain.multiply])
def test_sums_of_different_ranks_broadcast(operation):
    domain = Domain(1)
    x, y = domain.values(domain.fresh("x", (RESIDUES, 3))), domain.values(domain.fresh("y", (RESIDUES, 1, 1)))
    results = operation(domain, x, y)
    assert results.shape == (RESIDUES, RESIDUES, 3)
    for place in range(RESIDUES):
        alone = operation(domain, x, domain.values(domain.fresh("y", (RESIDUES,))[place : place + 1]))
        part = Sums(results.residues[:, place], None, 1, 1)
        np.testing.assert_array_equal(reduced(part.residues - alone.residues), 0)


def test_sums_of_different_roots_have_several():
    domain = Domain(1)
    assert several(domain).source is None
    x, y = domain.fresh("x", (2,)), domain.fresh("y", (2,))
    mixed = domain.add(domain.values(x), domain.values(np.stack((x[0], y[1]))))
    assert mixed.source["function"].tolist()[1] == SEVERAL
    assert domain.functions.values[mixed.source["function"][0]].tolist() == (2 * BYTES).tolist()


def test_parameters_that_change_after_a_requantisation_do_not_change_its_function():
    domain = Domain(1)
    words = np.array([[0], [1 << 15], [15], [127 << 8 | 128]])
    several = domain.add(domain.values(domain.fresh("x", (1,))), domain.values(domain.fresh("y", (1,))))
    domain.requantise(several, words)
    given = words.copy()
    words[1] = 1 << 14
    single = domain.values(domain.fresh("z", (1,)))
    requantised, fresh = domain.requantise(single, given), Domain(1)
    expected = fresh.requantise(single, given)
    values, wanted = (
        each.functions.values[result["function"][0]]
        for each, result in ((domain, requantised), (fresh, expected))
    )
    assert values.tolist() == wanted.tolist() == BYTES.tolist()


@pytest.mark.parametrize("shared", [0, 2, 5])
def test_scaled_sums_that_are_added_keep_the_sums_of_one_root(shared):
    domain = Domain(1)
    left, right = domain.fresh("x", (5,)), domain.fresh("y", (5,))
    right[:shared] = left[:shared]
    factors = np.array(3), np.array(-2)
    added = domain.add_scaled(domain.values(left), domain.values(right), factors)
    scaled = (
        domain.scale(domain.values(each), factor) for each, factor in zip((left, right), factors, strict=True)
    )
    expected = domain.add(*scaled)
    np.testing.assert_array_equal(added.residues, expected.residues)
    assert (added.source is None) == (expected.source is None) == (shared == 0)
    if shared:
        assert (added.source["function"] == expected.source["function"]).all()
        assert (added.source["function"] == 0).tolist() == [True] * shared + [False] * (5 - shared)
        assert (added.source["lo"] == left["lo"]).all()


def pooled(domain, members, parameters=WORDS):
    """Return the greatest of sums[n] requantised, elements[n]."""
    greatest = domain.maximum(np.stack([domain.sums_as_roots(each) for each in members]))
    return domain.requantised_greatest(greatest, domain.columns(parameters, 32))


def sums_of(domain, *names):
    """Return sums[4] of two roots each, for each name."""
    y = domain.values(domain.fresh("y", (4,)))
    return [
        domain.add(domain.values(domain.fresh(name, (4,))), domain.scale(y, np.array(9))) for name in names
    ]


def test_the_greatest_of_sums_requantised_is_the_greatest_of_the_requantised():
    domain = Domain(1)
    members = sums_of(domain, "a", "b", "c")
    assert Axiom.GREATEST_OF_SUMS not in domain.axioms
    expected = domain.maximum(np.stack([domain.requantise(each, WORDS) for each in members]))
    assert equal(pooled(domain, members), expected)
    assert equal(pooled(domain, [*members[::-1], members[1]]), expected)
    assert Axiom.GREATEST_OF_SUMS in domain.axioms
    assert Axiom.MONOTONE_OF_GREATEST not in domain.axioms
    nested = domain.maximum(np.stack([domain.sums_as_roots(each) for each in members[1:]]))
    whole = domain.maximum(np.stack([domain.sums_as_roots(members[0]), nested]))
    assert equal(domain.requantised_greatest(whole, domain.columns(WORDS, 32)), expected)


@pytest.mark.parametrize("change", ["missing", "another", "more", "shifted", "parameters"])
def test_a_wrong_window_of_sums_is_another_element(change):
    domain = Domain(1)
    members = sums_of(domain, "a", "b", "c", "d")
    expected = domain.maximum(np.stack([domain.requantise(each, WORDS) for each in members[:3]]))
    a, b, c, d = members
    shifted = Sums(np.roll(b.residues, 1, 1), None, b.reach, b.offset)
    wrong = {"missing": [a, b], "another": [a, b, d], "more": members, "shifted": [a, shifted, c]}
    element = pooled(
        domain, wrong.get(change, [a, b, c]), words(bias=99) if change == "parameters" else WORDS
    )
    assert not (element == expected).any()


def test_sums_of_one_root_are_functions_of_it_in_a_greatest():
    domain = Domain(1)
    x, (several_,) = domain.fresh("x", (4,)), sums_of(domain, "a")
    tripled = domain.scale(domain.values(x), np.array(3))
    constant = domain.values(domain.constants(np.full(4, -700)))
    expected = domain.maximum(
        np.stack([domain.requantise(each, WORDS) for each in (tripled, several_, constant)])
    )
    assert equal(pooled(domain, [several_, constant, tripled]), expected)


@pytest.mark.parametrize(("largest", "covered"), [((1 << 31) - 1, True), (1 << 31, False)])
def test_sums_that_may_wrap_with_their_bias_are_refused(largest, covered):
    domain = Domain(1)
    members = sums_of(domain, "a", "b")
    bias = largest - max(each.reach + each.offset for each in members)
    for sign in (1, -1):
        parameters = words(bias=sign * bias)
        if covered:
            pooled(domain, members, parameters)
        else:
            with pytest.raises(ProofError, match="sums that may wrap: with biases, up to 2,147,483,648"):
                pooled(domain, members, parameters)


def test_a_table_of_a_greatest_moves_to_the_members_only_where_it_never_decreases():
    domain = Domain(1)
    members = sums_of(domain, "a", "b")
    rising, other = (domain.functions.number(table) for table in (np.maximum(BYTES, 3), BYTES**2 // 200))
    for table, same in ((rising, True), (other, False)):
        expected = domain.maximum(
            np.stack([domain.apply(domain.requantise(each, WORDS), table) for each in members])
        )
        assert (domain.apply(pooled(domain, members), table) == expected).all() == same


def test_threads_that_name_and_count_the_same_get_the_same():
    """In different orders, with a switch between threads after almost every instruction of Python."""
    interval = sys.getswitchinterval()
    domain, count = Domain(1), 300
    parameters = np.stack([words(zero=number % 100, bias=number) for number in range(count)])
    sums = several(domain, (3, 4))

    def named(number: int) -> tuple[int, int, bytes]:
        function = domain.functions.number(BYTES * number + 7)
        return domain.kind("x", number), function, domain.requantise(sums, parameters[number]).tobytes()

    def work(seed: int) -> list[tuple[int, int, bytes]]:
        order = np.random.default_rng(seed).permutation(count).tolist()
        results = {number: named(number) for number in order}
        return [results[number] for number in range(count)]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            first, *others = pool.map(work, range(4))
    finally:
        sys.setswitchinterval(interval)
    assert all(other == first for other in others)
    assert len({kind for kind, *_ in first}) == len({number for _, number, _ in first}) == count
    assert len({requantised for *_, requantised in first}) == count
    assert domain._named.count == 4 * count * 12

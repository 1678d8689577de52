"""STOREs computed together write what each of them writes alone."""

import threading
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from vdla.hw.spec import numerics
from vdla.prove import stores
from vdla.prove.domain import Domain
from vdla.prove.elements import SEVERAL, Sums, equal
from vdla.prove.errors import StoreError
from vdla.prove.memory import NO_WRITER, Dram, Pad
from vdla.prove.stores import Form, Stores, Taken, joined

LANES = 4
RESIDUAL = np.array(numerics.residual_parameters(5, (3, -2), 2, 1, -128, 127), np.int64)
FORMS = {
    "narrowed": Form(LANES, False, None, None),
    "requantised": Form(LANES, True, None, None),
    "looked up": Form(LANES, True, 1, None),
    "with residuals": Form(LANES, True, None, RESIDUAL.tobytes()),
}


def sums_of(domain: Domain, name: str, rows: int) -> Sums:
    """Return sums[rows, LANES]: of two roots in the first row, functions of one root in the others."""
    left, right = (domain.values(domain.fresh(f"{name} {part}", (rows, LANES))) for part in "ab")
    total = domain.add(left, domain.scale(right, np.array(3)))
    source = left.source.copy()
    source["function"][0] = SEVERAL
    residues = left.residues.copy()
    residues[:, 0] = total.residues[:, 0]
    return replace(total, residues=residues, source=None if rows == 1 else source)


RESIDUAL_ROWS = (4, 5), (6,), (8, 9, 10), (11, 12)
"""Of the STOREs below; later STOREs write the rows of the first two. Other rows are scratchpad elements."""


def dram_of(domain: Domain) -> Dram:
    """Return DRAM of 8 elements of activations, with residuals behind them."""
    return Dram(domain, np.zeros(0, np.uint8), 0, 8 * LANES, LANES, spare=5 * LANES)


def taken_stores(domain: Domain, form: Form) -> list[Taken]:
    """Return STOREs at different places, of different parameters; the last writes over the first."""
    result = []
    for index, (first, rows) in enumerate(((0, 2), (3, 1), (4, 3), (1, 2))):
        columns = residuals = None
        if form.is_requantised:
            parameters = numerics.requantise_parameters(np.full(LANES, index), 3 + index, 4, 1, -100, 127)
            columns = domain.columns(np.array(np.broadcast_arrays(*parameters), np.int64), 32)
        if form.residual is not None:
            residuals = np.array(RESIDUAL_ROWS[index])
        sums = sums_of(domain, str(index), rows)
        result.append(Taken(7 + index, sums, columns, residuals, first + np.arange(rows)))
    return result


def written(form: Form, together: bool, in_thread: bool = False) -> tuple[Domain, Dram]:
    domain = Domain(1)
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    with waiting.in_thread() if in_thread else nullcontext():
        for taken in taken_stores(domain, form):
            waiting.expect(form)
            waiting.add(taken)
            if not together:
                waiting.compute()
        waiting.compute()
    return domain, dram


@pytest.mark.parametrize("name", FORMS)
def test_stores_computed_together_write_what_each_writes_alone(name):
    (_, alone), (domain, joint) = (written(FORMS[name], together) for together in (False, True))
    assert equal(alone.elements, joint.elements).all()
    np.testing.assert_array_equal(alone.residues, joint.residues)
    np.testing.assert_array_equal(alone.residues, domain.values(alone.elements).residues)
    writers = alone.writers.reshape(-1, LANES)[:, 0].tolist()
    assert writers == joint.writers.reshape(-1, LANES)[:, 0].tolist() == [7, 10, 10, 8, 9, 9, 9, NO_WRITER]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_a_thread_writes_what_the_machine_writes_itself(name, together):
    (_, direct), (_, threaded) = (written(FORMS[name], together, in_thread) for in_thread in (False, True))
    assert equal(direct.elements, threaded.elements).all()
    np.testing.assert_array_equal(direct.residues, threaded.residues)
    np.testing.assert_array_equal(direct.writers, threaded.writers)


class Held(Domain):
    """A domain that narrows sums only after it is let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go = threading.Event()

    def narrowed(self, sums):
        assert self.go.wait(60)
        return super().narrowed(sums)


@pytest.fixture
def under_way(monkeypatch):
    """A STORE of elements 2 and 3 whose results a thread computes; the thread is let go."""
    monkeypatch.setattr(stores, "MOST_LANES", LANES)
    domain = Held()
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    with waiting.in_thread():
        waiting.expect(FORMS["narrowed"])
        waiting.add(Taken(3, sums_of(domain, "x", 2), None, None, np.array([2, 3])))
        waiting.expect(FORMS["narrowed"])
        assert (dram.writers == NO_WRITER).all()
        domain.go.set()
        yield domain, dram, waiting


def test_results_under_way_are_written_before_their_bytes_are_read(under_way):
    _, dram, waiting = under_way
    for low, high in ((0, 2 * LANES), (4 * LANES, 8 * LANES)):
        waiting.compute_before(low, high)
        assert (dram.writers == NO_WRITER).all()
    waiting.compute_before(4 * LANES - 1, 4 * LANES)
    assert (dram.writers[2 * LANES : 4 * LANES] == 3).all()


def test_residuals_that_results_under_way_replace_are_copied_first(under_way):
    domain, dram, waiting = under_way
    pad = Pad(domain, dram, 8 * LANES, 2, LANES)
    pad.refer(slice(0, 2), np.array([1, 4]))
    assert waiting.residuals(pad, slice(1, 2)).tolist() == [4]
    assert (dram.writers == NO_WRITER).all()
    pad.refer(slice(0, 2), np.array([3, 4]))
    before = dram.view(LANES).elements[3].copy()
    rows = waiting.residuals(pad, slice(0, 1))
    assert (dram.writers[2 * LANES : 4 * LANES] == 3).all()
    assert (dram.view(LANES).elements[rows[0]] == before).all()
    assert not (dram.view(LANES).elements[3] == before).any()


def test_the_thread_ends_with_the_context_and_its_error_names_the_store(monkeypatch):
    monkeypatch.setattr(stores, "MOST_LANES", LANES)
    domain, before = Domain(1), threading.active_count()
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    first, second = taken_stores(domain, FORMS["requantised"])[:2]
    with waiting.in_thread():
        for taken in (first, replace(second, sums=replace(second.sums, reach=1 << 125))):
            waiting.expect(FORMS["requantised"])
            waiting.add(taken)
        assert threading.active_count() == before + 1
        with pytest.raises(StoreError, match="a sum has coefficients of up to") as caught:
            waiting.compute()
    assert caught.value.index == second.index
    assert set(dram.writers.tolist()) == {NO_WRITER, first.index}
    assert threading.active_count() == before


def test_the_thread_ends_after_an_interrupt_with_results_under_way():
    domain, before = Held(), threading.active_count()
    waiting = Stores(domain, dram_of(domain))

    def interrupted() -> None:
        with waiting.in_thread():
            waiting.expect(FORMS["narrowed"])
            waiting.add(Taken(3, sums_of(domain, "x", 2), None, None, np.array([2, 3])))
            waiting.expect(FORMS["requantised"])
            assert threading.active_count() == before + 1
            domain.go.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before
    waiting.compute()


def test_results_are_computed_before_their_bytes_are_read_and_not_before_others_are():
    domain = Domain(1)
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    waiting.expect(FORMS["narrowed"])
    waiting.add(Taken(3, sums_of(domain, "x", 2), None, None, np.array([2, 3])))
    for low, high in ((0, 2 * LANES), (4 * LANES, 8 * LANES)):
        waiting.compute_before(low, high)
        assert (dram.writers == NO_WRITER).all()
    waiting.compute_before(4 * LANES - 1, 4 * LANES)
    assert (dram.writers[2 * LANES : 4 * LANES] == 3).all()


def test_stores_of_another_form_or_too_many_are_computed_apart(monkeypatch):
    domain = Domain(1)
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    first, second = taken_stores(domain, FORMS["requantised"])[:2]
    waiting.expect(FORMS["requantised"])
    waiting.add(first)
    waiting.expect(FORMS["looked up"])
    waiting.add(second)
    assert sorted(set(dram.writers.tolist())) == [NO_WRITER, first.index]
    monkeypatch.setattr(stores, "MOST_LANES", LANES)
    waiting.expect(FORMS["looked up"])
    waiting.add(replace(second, index=99, places=np.array([5])))
    assert sorted(set(dram.writers.tolist())) == [NO_WRITER, first.index, second.index]


@pytest.mark.parametrize("name", ["requantised", "with residuals"])
def test_an_error_names_its_store_and_nothing_is_written(name):
    domain = Domain(1)
    dram = dram_of(domain)
    waiting = Stores(domain, dram)
    first, second = taken_stores(domain, FORMS[name])[:2]
    waiting.expect(FORMS[name])
    waiting.add(first)
    waiting.expect(FORMS[name])
    waiting.add(replace(second, sums=replace(second.sums, reach=1 << 125)))
    with pytest.raises(StoreError, match="a sum has coefficients of up to") as caught:
        waiting.compute()
    assert caught.value.index == second.index
    assert (dram.writers == NO_WRITER).all()


def test_joined_sums_keep_the_bounds_of_all():
    domain = Domain(1)
    left, right = sums_of(domain, "x", 1), sums_of(domain, "y", 3)
    both = joined([replace(left, reach=9), replace(right, offset=11, degree=2, magnitude=1 << 51)])
    assert (both.reach, both.offset, both.degree, both.magnitude) == (
        max(9, right.reach),
        max(left.offset, 11),
        2,
        1 << 51,
    )
    assert both.source is not None
    assert (both.source["function"] == SEVERAL).any(1).tolist() == [True, True, False, False]
    np.testing.assert_array_equal(both.residues, np.concatenate((left.residues, right.residues), 1))

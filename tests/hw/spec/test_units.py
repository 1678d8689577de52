"""Tokens: each unit has an edge to and from its neighbours, and a flag of an instruction for each."""

import pytest

from vdla.hw.spec import isa
from vdla.hw.spec.units import TOKEN_EDGES, pops, pushes
from vdla.hw.spec.vocabulary import MemoryType

LOAD, COMPUTE, STORE = (
    isa.Load(memory_type=MemoryType.INP),
    isa.Gemm(),
    isa.Store(memory_type=MemoryType.OUT),
)
POPPED = {
    "load": {"pop_next": "compute->load"},
    "compute": {"pop_prev": "load->compute", "pop_next": "store->compute"},
    "store": {"pop_prev": "compute->store"},
}
PUSHED = {
    "load": {"push_next": "load->compute"},
    "compute": {"push_prev": "compute->load", "push_next": "compute->store"},
    "store": {"push_prev": "store->compute"},
}
ITEMS = {"load": LOAD, "compute": COMPUTE, "store": STORE}


def with_flag(item: isa.Instruction, *flags: str) -> isa.Instruction:
    fields = {name: getattr(item, name) for name in isa.field_names(type(item))}
    return type(item)(**fields, **dict.fromkeys(flags, 1))


@pytest.mark.parametrize("unit", ITEMS)
def test_a_flag_names_the_edge_to_its_neighbour(unit):
    for flag in isa.FLAGS:
        item = with_flag(ITEMS[unit], flag)
        assert [str(edge) for edge in pops(item)] == [*filter(None, [POPPED[unit].get(flag)])]
        assert [str(edge) for edge in pushes(item)] == [*filter(None, [PUSHED[unit].get(flag)])]
    every = with_flag(ITEMS[unit], *isa.FLAGS)
    assert {str(edge) for edge in pops(every)} == {*POPPED[unit].values()}
    assert {str(edge) for edge in pushes(every)} == {*PUSHED[unit].values()}


def test_an_edge_is_pushed_by_its_producer_and_popped_by_its_consumer():
    for edge in TOKEN_EDGES:
        producer, _, consumer = str(edge).partition("->")
        assert PUSHED[producer][edge.push_flag] == POPPED[consumer][edge.pop_flag] == str(edge)
    assert len({*map(str, TOKEN_EDGES)}) == 4

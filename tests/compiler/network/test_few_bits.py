"""Networks whose weights have few bits: LOADs decode them, and results are those of the graph."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.network.test_chains import FED, chain_with_strides, inverted_residual
from tests.compiler.network.test_groups import EpilogueNet
from tests.compiler.network.test_row_moves import CONFIGS, difference, exact, recurrence
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.module.plan import Plan
from vdla.sim.decoded import decode_stream, slots

BYTE = 8
NARROWING = {
    name: config.with_changes(extensions=(*dict.fromkeys((*config.extensions, Extension.NARROW_WEIGHTS)),))
    for name, config in CONFIGS.items()
}


class FewBits(EpilogueNet):
    """A graph whose weights have so many bits."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def constant(self, array: np.ndarray) -> str:
        is_weights = array.dtype == np.int8 and array.ndim > 1
        return super().constant(array >> (BYTE - self.bits) if is_weights else array)


def image(net: EpilogueNet) -> Graph:
    x = net.conv(net.input(1, 5, 6, 6), 24, (3, 3), pads=(1, 1, 1, 1))
    x = net.conv(net.conv(x, 24, (3, 3), pads=(1, 1, 1, 1), group=24), 40, strides=(2, 2))
    return net.graph(net.sum(net.conv(x, 40), x))


def rows(net: EpilogueNet) -> Graph:
    x = net.matmul(net.input(3, 20), 33)
    return net.graph(net.matmul(net.lookup(x), 50))


def halvings_in(plan: Plan) -> set[int]:
    """Return the halvings of the LOADs of weights of a plan."""
    found: set[int] = set()
    for stream in plan.streams.values():
        program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
        columns = slots(isa.Load, stream.config)
        fields = program.table[program.opcode == isa.Opcode.LOAD]
        loads = fields[
            (fields[:, columns["memory_type"]] == MemoryType.WGT) & (fields[:, columns["x_size"]] > 0)
        ]
        found |= set(loads[:, columns["halvings"]].tolist())
    return found


@pytest.mark.parametrize(("network", "bits"), [(image, 4), (rows, 2)])
@pytest.mark.parametrize("config", NARROWING.values(), ids=NARROWING)
def test_results_are_those_of_the_graph(config, network, bits):
    graph = network(FewBits(bits))
    plan = exact(graph, config)
    assert difference(graph, plan) == ""
    assert (1 if bits == 4 else 2) in halvings_in(plan)


@pytest.mark.parametrize(("bits", "halvings"), [(8, 0), (5, 0), (4, 1), (3, 1), (2, 2), (1, 2)])
def test_weights_are_halved_as_often_as_their_values_fit(bits, halvings):
    assert halvings_in(exact(matrix(FewBits(bits)), NARROWING["tiny"])) == {halvings}


@pytest.mark.usefixtures("chains_pay")
@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("network", [inverted_residual, chain_with_strides])
def test_chains_load_narrow_weights(network, bits):
    graph = network(FewBits(bits))
    plan = exact(graph, FED)
    assert difference(graph, plan) == ""
    assert halvings_in(plan) == {1 if bits == 4 else 2}


def test_steps_of_a_recurrence_share_narrow_weights():
    graph = narrow_constants(recurrence(ends="last"))
    plan = exact(graph, NARROWING["tiny"])
    assert difference(graph, plan) == ""
    assert 1 in halvings_in(plan)


def narrow_constants(graph: Graph) -> Graph:
    """Return a graph whose int8 constants have four bits."""
    constants = {
        name: array >> 4 if array.dtype == np.int8 and array.ndim > 1 else array
        for name, array in graph.constants.items()
    }
    return replace(graph, constants=constants)


def weight_bytes(config: AcceleratorConfig, bits: int) -> int:
    """Return the bytes that the instructions of a matrix product read."""
    plan = exact(matrix(FewBits(bits)), config)
    ((layer,),) = (launch.layers for launch in plan.launches)
    assert layer.bytes_read >= layer.bytes_once - layer.bytes_written
    return sum(values.nbytes for values in plan.weights.values())


def matrix(net: EpilogueNet) -> Graph:
    return net.graph(net.matmul(net.input(1, 64), 64))


def test_narrow_weights_take_fewer_bytes_of_dram():
    narrowing = DEFAULT.with_changes(extensions=tuple(Extension))
    whole, half, quarter = (weight_bytes(narrowing, bits) for bits in (8, 4, 2))
    assert (whole - half, half - quarter) == (64 * 64 // 2, 64 * 64 // 4)
    assert weight_bytes(DEFAULT, 4) == whole

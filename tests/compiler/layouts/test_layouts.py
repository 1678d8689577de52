"""A layout of the values inside a launch is a single file: an address map, and the rule that chooses it."""

from dataclasses import dataclass

import pytest

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import Net
from tests.compiler.network.test_networks import check
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.network import memory_plan
from vdla.compiler.network.placed import InnerValue
from vdla.compiler.operands.address_map import AddressMap, Move, Operand
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.module.plan import Plan
from vdla.runtime.stream.builder import Rows, StreamBuilder

EVERY = TINY.with_changes(extensions=tuple(Extension))
DISTANCE = 3  # elements


@dataclass(frozen=True, slots=True)
class Spaced(AddressMap):
    """A map whose elements are DISTANCE elements apart."""

    def size(self, dense: int) -> int:
        return dense * DISTANCE

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        return self.store(record)

    def store(self, record: Move) -> Move:
        def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
            pitch, (above, below) = rows.x_pads[0] + rows.width + rows.x_pads[1], rows.y_pads
            for count, at in ((above, chip), (below, chip + (above + rows.height) * pitch)):
                if count:
                    record(at, tensor, 0, Rows(0, pitch, pitch, (count, 0)))
            for y in range(rows.height):
                for x in range(rows.width):
                    pads = rows.x_pads[0] * (x == 0), rows.x_pads[1] * (x == rows.width - 1)
                    at = chip + (above + y) * pitch + (rows.x_pads[0] + x if x else 0)
                    first = (element + y * rows.stride + x) * DISTANCE
                    record(at, tensor, first, Rows(1, 1, 1, (0, 0), pads))

        return move


def spaced(value: InnerValue) -> Operand | None:
    return Operand(value.tensor, address_map=Spaced())


def spaced_between_plain_programs(value: InnerValue) -> Operand | None:
    users = (value.maker, *value.readers)
    maps = any(piece.task.address_maps(value.config) for user in users for piece in user.pieces)
    return None if maps else spaced(value)


def three_convolutions(net: Net) -> str:
    x = net.input(1, 7, 5, 6)
    for _ in range(3):
        x = net.conv(x, 7, (3, 3), pads=(1, 1, 1, 1))
    return x


def compiled(net: Net, y: str, config=EVERY) -> Plan:
    graph = net.graph(y)
    plan = plan_of(graph, config)
    check(graph, plan, FunctionalDevice(config, plan.dram_bytes, 0))
    check(graph, plan, CycleDevice(config, plan.dram_bytes))
    return plan


def written(plan: Plan) -> list[tuple[bool, int]]:
    """Return for each layer whether the runtime knows the layout of its result, and how many tensors of other
    layouts it writes."""
    return [(layer.result is not None, len(layer.scratch)) for layer in plan.launches[0].layers]


def test_values_inside_a_launch_get_a_layout_that_is_declared(monkeypatch):
    net = Net()
    y = three_convolutions(net)
    dense = compiled(net, y)
    assert written(dense) == [(True, 0)] * 3
    monkeypatch.setitem(memory_plan.LAYOUTS, "spaced", spaced_between_plain_programs)
    plan = compiled(net, y)
    assert written(plan) == [(False, 1), (False, 1), (True, 0)]
    tensor = plan.launches[0].layers[0].scratch[0]
    assert plan.tensors[tensor] >= DISTANCE * 2 * 4 * 5 * 6 > max(dense.tensors.values())


def test_a_copy_of_elements_that_are_apart_takes_no_instructions(monkeypatch):
    net = Net()
    x = net.input(1, 3, 5, 6)
    y = net.conv(net.join(net.conv(x, 8), net.conv(x, 4)), 5)
    monkeypatch.setitem(memory_plan.LAYOUTS, "spaced", spaced_between_plain_programs)
    plan = compiled(net, y)
    assert [layer.label for layer in plan.launches[0].layers].count("") == 1
    assert written(plan)[:2] == [(False, 1)] * 2


@pytest.mark.parametrize("change", [{"block_in": 8}, {"block_out": 8}])
def test_an_operand_with_two_maps_is_refused(monkeypatch, change):
    net = Net()
    y = three_convolutions(net)
    monkeypatch.setitem(memory_plan.LAYOUTS, "spaced", spaced)
    with pytest.raises(IrError, match="would be mapped twice; the rule of the layout must not give it"):
        plan_of(net.graph(y), EVERY.with_changes(**change))

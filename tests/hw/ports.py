"""Which ports of a component carry less than their width says: the highest bit is never read or never driven."""

from amaranth.hdl import Fragment, Module, Value
from amaranth.hdl._ir import build_netlist
from amaranth.hdl._nir import Net
from amaranth.lib import wiring

BUS = ("axi__", "m_axi__", "s_axi__")  # whose signals AXI prescribes
IDLE = {
    "BeatFormer": {"read"},
    "BlockWalk": {"plan"},
    "Classifier": {"word"},
    "ElementWriter": {"part", "lane"},
    "Fetch": {"read_data__ready"},
    "FetchedOperand": {"slot"},
    "InputFormer": {"coming"},
    "InputWindow": {"window", "more_rows", "wide", "advances"},
    "Gatherer": {"part"},
    "LoadUnit": {"status__waits_prev"},
    "NormalIssue": {"offered"},
    "ResidualAdder": {"part"},
    "RowWalk": {"taken"},
    "Sequencer": {"instruction"},
    "SourceOperand": {"given", "slot", "result"},
    "StartGate": {"instruction", "push_next__push"},
    "StoreUnit": {"status__waits_next"},
    "VectorAlu": {"slot"},
}
"""Ports that are shared with other components, or have bits for other configurations alone."""
FIELDS = {"instruction", "instruction__payload"}
"""Words whose highest field not every configuration has."""


def idle_ports(component: wiring.Component) -> set[str]:
    """Return the ports whose highest bit nothing inside reads, or that is constant, except the ports of a
    bus, of IDLE and of FIELDS."""
    ports = [
        ("__".join(map(str, path)), Value.cast(value), None)
        for path, _, value in component.signature.flatten(component)
    ]
    module = Module()
    module.submodules.inner = component
    netlist = build_netlist(Fragment.get(module, None), ports=ports)
    read, top = {net for cell in netlist.cells for net in cell.input_nets()}, netlist.top
    idle = {name for name, nets in top.ports_o.items() if len(nets) and nets[-1].is_const}
    for name, (start, width) in top.ports_i.items():
        if width and name not in ("clk", "rst") and Net.from_cell(0, start + width - 1) not in read:
            idle.add(name)
    allowed = IDLE.get(type(component).__name__, set()) | FIELDS
    return {name for name in idle - allowed if not name.startswith(BUS)}

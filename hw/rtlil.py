"""Components as RTLIL, from which Yosys writes Verilog, and where in the sources each module comes from.

Amaranth's writer does most of it. This writer differs where that text takes long to write, or where the
Verilog would have operands of different widths:

- a memory that starts as zeros has no list of them, which takes minutes for megabytes;
- operands are as wide as their operator, but for factors, whose widths tell tools how large a multiplier is;
- a part of a value that is chosen by an index is cut from a whole shifted value.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable
from amaranth.hdl import Value as Expression
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._ir import Fragment, PortDirection, build_netlist
from amaranth.hdl._nir import Memory, Operator, Part, Value
from amaranth.lib import wiring

from vdla.hw.spec.garbage import without_collections

PACKAGE = "vdla"


@dataclass(frozen=True, slots=True)
class Rtlil:
    """A design as RTLIL.

    Attributes:
        text: for `read_rtlil`.
        sources: class, file and line that a module was emitted from, by the module's name; modules that no
            class of this package stands for are missing.
    """

    text: str
    sources: Mapping[str, str]


def rtlil_of(component: Elaboratable, name: str, ports: object = None) -> Rtlil:
    """Return the RTLIL of a component, whose top module is called `name`.

    Args:
        ports: as Amaranth's `convert` takes them; None: the members of the component's signature.
    """
    with without_collections():
        return _rtlil_of(component, name, _members(component) if ports is None else ports)


def _rtlil_of(component: Elaboratable, name: str, ports: object) -> Rtlil:
    design = Fragment.get(component, None).prepare(ports=ports, hierarchy=(name,))
    netlist = build_netlist(design)
    empty = rtlil.EmptyModuleChecker(netlist)
    builder = rtlil.Design(emit_src=False)
    for index, module in enumerate(netlist.modules):
        if empty.is_empty(index):
            continue
        target = builder.module(".".join(module.name))
        if index == 0:
            target.attribute("top", 1)
        _Emitter(target, netlist, module, SignalDict(), empty_checker=empty).emit()
    kinds = {".".join(info.name): _kind(fragment) for fragment, info in design.fragments.items()}
    places = {kind: _place(kind) for kind in set(kinds.values()) if kind}
    return Rtlil(str(builder), {module: places[kind] for module, kind in kinds.items() if kind})


def _members(component: Elaboratable) -> dict[str, tuple[object, object]]:
    assert isinstance(component, wiring.Component), "others come with their ports"
    ways = {wiring.In: PortDirection.Input, wiring.Out: PortDirection.Output}
    return {
        "__".join(map(str, path)): (Expression.cast(value), ways[member.flow])
        for path, member, value in component.signature.flatten(component)
    }


def _kind(fragment: Fragment) -> type[object] | None:
    """Return the class of the component that a fragment was elaborated from."""
    for origin in fragment.origins or ():
        component = getattr(origin, "_elaboratable_", origin)  # which Amaranth wraps to change its domains
        kind: type[object] = type(component)
        if kind.__module__.startswith(f"{PACKAGE}."):
            return kind
    return None


def _place(kind: type[object]) -> str:
    file = Path(*kind.__module__.split(".")).with_suffix(".py")
    return f"{kind.__qualname__}, {file}:{inspect.getsourcelines(kind)[1]}"


class _Emitter(rtlil.ModuleEmitter):
    """Writes one module."""

    def emit_memory(self, cell_idx: int, cell: Memory) -> None:
        """Write initial contents other than zeros."""
        if any(cell.init):
            super().emit_memory(cell_idx, cell)

    def emit_operator(self, cell_idx: int, cell: Operator) -> None:
        """Write an operator; the factors of a product are shortened."""
        self._may_shorten = cell.operator == "*"
        super().emit_operator(cell_idx, cell)

    def shorten_operand(self, value: Value, *, signed: bool) -> Value:
        """Return a factor without the bits that only extend it, any other operand whole."""
        return super().shorten_operand(value, signed=signed) if self._may_shorten else value

    def emit_part(self, cell_idx: int, cell: Part) -> None:
        """Write the choice of a part as a shift of the whole, of which the low bits are taken."""
        whole, wanted = len(cell.value), self.cell_wires[cell_idx]
        if cell.value_signed or cell.width >= whole:
            super().emit_part(cell_idx, cell)
            return
        shifted = self.builder.wire(whole)
        self.cell_wires[cell_idx] = shifted
        super().emit_part(
            cell_idx,
            Part(
                cell.module_idx,
                value=cell.value,
                value_signed=False,
                width=whole,
                stride=cell.stride,
                offset=cell.offset,
                src_loc=cell.src_loc,
            ),
        )
        self.cell_wires[cell_idx] = wanted
        self.builder.connect(wanted.name, f"{shifted.name} [{cell.width - 1}:0]")

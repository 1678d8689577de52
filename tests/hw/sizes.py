"""How large the components of a design are: bits of registers, of memory and of logic."""

from collections import defaultdict
from collections.abc import Iterator

from amaranth.hdl import Fragment, Shape, Value
from amaranth.hdl._ast import Assign, Concat, Operator, Part, SignalSet, Slice, Statement, Switch, SwitchValue
from amaranth.hdl._mem import MemoryInstance

COMBINATIONAL = "comb"


def sizes(design: Fragment) -> dict[str, list[int]]:
    """Return what all components of a class have together, by the name of the class.

    Returns:
        Bits of registers; how many of them a reset sets; bits of memory; bits of the results of operators and
        slices, and bits that are assigned, each assignment by itself.
    """
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for owner, part in _parts(design, ""):
        size = counted[owner]
        if isinstance(part, MemoryInstance):
            size[2] += part._data.depth * Shape.cast(part._data.shape).width
        for signal in _registers(part):
            size[0] += len(signal)
            size[1] += 0 if signal.reset_less else len(signal)
        size[3] += _logic_bits(part)
    return {owner: counts for owner, counts in sorted(counted.items()) if any(counts)}


def _parts(part: Fragment, owner: str) -> Iterator[tuple[str, Fragment]]:
    """Yield every part of a design with the class of the component that it belongs to."""
    for origin in part.origins or ():
        component = type(getattr(origin, "_elaboratable_", origin))
        owner = component.__name__ if component.__module__.startswith("vdla.") else owner
    yield owner, part
    for inner, *_ in part.subfragments:
        yield from _parts(inner, owner)


def _registers(part: Fragment) -> SignalSet:
    return SignalSet(
        signal
        for domain, statements in part.statements.items()
        if domain != COMBINATIONAL
        for statement in statements
        for signal in statement._lhs_signals()
    )


def _logic_bits(part: Fragment) -> int:
    seen: set[int] = set()  # a shared value is counted at its first use
    total, waiting = 0, [node for statements in part.statements.values() for node in statements]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Assign):
            total += len(node.lhs)
        elif isinstance(node, Operator | Part | Slice | SwitchValue):
            total += len(node)
        waiting += _inside(node)
    return total


def _inside(node: Statement | Value) -> list[Statement | Value]:
    """Return the statements and values that a statement or value consists of."""
    match node:
        case Assign():
            return [node.lhs, node.rhs]
        case Switch():
            return [node.test, *(statement for _, statements, _ in node.cases for statement in statements)]
        case SwitchValue():
            return [node.test, *(value for _, value in node.cases)]
        case Operator():
            return list(node.operands)
        case Part():
            return [node.value, node.offset]
        case Slice():
            return [node.value]
        case Concat():
            return list(node.parts)
    return []

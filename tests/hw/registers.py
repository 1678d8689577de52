"""How many bits of registers and of memory the components of a design have."""

from collections import defaultdict
from collections.abc import Iterator

from amaranth.hdl import Fragment, Shape
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._mem import MemoryInstance

COMBINATIONAL = "comb"


def sizes(design: Fragment) -> dict[str, list[int]]:
    """Return what all components of a class have together, by the name of the class: bits of registers, those
    of them that a reset sets, and bits of memory."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for owner, part in _parts(design, ""):
        if isinstance(part, MemoryInstance):
            found[owner][2] += part._data.depth * Shape.cast(part._data.shape).width
        for signal in _registers(part):
            found[owner][0] += len(signal)
            found[owner][1] += 0 if signal.reset_less else len(signal)
    return {owner: counts for owner, counts in sorted(found.items()) if any(counts)}


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

"""The store of measured components and designs: one JSON file that ships with the kit.

`make area` fills it. Its figures belong to one hardware, whose digest it holds; for another it counts as
empty.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from vdla.explore.silicon.hardware import generator_digest
from vdla.hw.components import Component
from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.writing import write_text

SHIPPED = Path(__file__).parent / "store.json"
MemoryFigures = tuple[int, int, int]
"""The fields of a `MemoryShape`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A component that was synthesised alone.

    Attributes:
        kind, features, memories: as in `Component`.
        hardware: digest of its Verilog.
        resources: LUTs, flip-flops, DSPs, block RAMs.
    """

    kind: str
    features: Mapping[str, float]
    memories: tuple[MemoryFigures, ...]
    hardware: str
    resources: Mapping[str, float]

    @property
    def key(self) -> str:
        """What tells it from others of its family."""
        return _key(self.kind, self.features, self.memories)


@dataclass(frozen=True, slots=True)
class RoutedComponent:
    """A component that was placed and routed alone.

    Attributes:
        kind, features, memories: as in `Component`.
        hardware: digest of its Verilog.
        ns: its period.
    """

    kind: str
    features: Mapping[str, float]
    memories: tuple[MemoryFigures, ...]
    hardware: str
    ns: float

    @property
    def key(self) -> str:
        """What tells it from others of its family."""
        return _key(self.kind, self.features, self.memories)


def key_of(component: Component) -> str:
    """Return the key of a component: equal for equal hardware."""
    return _key(component.kind, component.features, memories_of(component))


def memories_of(component: Component) -> tuple[MemoryFigures, ...]:
    """Return the fields of the memories of a component."""
    return tuple((memory.depth, memory.bits, memory.lanes) for memory in component.memories)


def _key(kind: str, features: Mapping[str, float], memories: tuple[MemoryFigures, ...]) -> str:
    plain = {name: float(value) for name, value in sorted(features.items())}
    return json.dumps([kind, plain, memories])


@dataclass(slots=True)
class Store:
    """Measured components and designs of one hardware.

    Attributes:
        hardware: digest of the generator.
        components: by family.
        routed: components that were routed, by family.
        designs: of each family and configuration (by the digest of its parameters), what was measured:
            `name`, `hardware` (digest of its Verilog), the resources, `mhz`, `seed`, `path`.
    """

    hardware: str
    components: dict[str, list[Measured]] = field(default_factory=dict)
    routed: dict[str, list[RoutedComponent]] = field(default_factory=dict)
    designs: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def write(self, path: Path = SHIPPED) -> None:
        """Write the store, one component or design per line.

        Raises:
            OutputError: it cannot be written.
        """
        designs = json.dumps(self.designs, indent=1, sort_keys=True)
        parts = [
            f'{{"hardware": {json.dumps(self.hardware)}',
            f'"components": {_lines(self.components)}',
            f'"routed": {_lines(self.routed)}',
            f'"designs": {designs}\n}}\n',
        ]
        write_text(path, ",\n".join(parts))


def _lines(entries: Mapping[str, Sequence[Any]]) -> str:
    """Return components by family as JSON, one per line."""
    families = []
    for family, components in sorted(entries.items()):
        lines = [
            json.dumps(asdict(component))
            for component in sorted(components, key=lambda component: component.key)
        ]
        families.append(f"{json.dumps(family)}: [\n" + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(families) + "\n}"


def read_store(path: Path = SHIPPED) -> Store:
    """Return the store in a file, whatever hardware it belongs to.

    Raises:
        FileFormatError: the file is missing or damaged.
    """
    try:
        kept = json.loads(path.read_text())
        return Store(
            kept["hardware"],
            {
                name: [Measured(**_fields(record)) for record in records]
                for name, records in kept["components"].items()
            },
            {
                name: [RoutedComponent(**_fields(record)) for record in records]
                for name, records in kept["routed"].items()
            },
            kept["designs"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{path}, the store of measured areas, cannot be read ({error}); write it anew with make area"
        ) from error


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a component as its class has them."""
    return {**entry, "memories": tuple((depth, bits, lanes) for depth, bits, lanes in entry["memories"])}


@cache
def current_store() -> Store:
    """Return the shipped store; an empty one where it belongs to another hardware than the sources."""
    store = read_store()
    return store if store.hardware == generator_digest() else Store(generator_digest())

"""A package imports lower floors and itself only, and no modules import each other in a cycle."""

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "vdla"


@dataclass(frozen=True, slots=True)
class Room:
    """Packages that may import each other, and whatever stands on a lower floor."""

    floor: int
    packages: tuple[str, ...]


ROOMS = (
    Room(0, ("vdla.hw.spec",)),
    Room(1, ("vdla.hw",)),
    Room(1, ("vdla.sim",)),
    Room(1, ("vdla.compiler.ir",)),
    Room(2, ("vdla.runtime",)),
    Room(3, ("vdla.runtime.devices", "vdla.boards")),
    Room(3, ("vdla.runtime.session",)),
    Room(
        3,
        (
            "vdla.compiler.te",
            "vdla.compiler.graph",
            "vdla.compiler.codegen",
            "vdla.compiler.discovery",
            "vdla.compiler.layouts",
            "vdla.compiler.lower",
            "vdla.compiler.network",
            "vdla.compiler.operands",
            "vdla.compiler.rules",
            "vdla.compiler.tasks",
        ),
    ),
    Room(4, ("vdla.explore",)),
    Room(4, ("vdla.export",)),
    Room(4, ("vdla.prove",)),
    Room(5, ("vdla.cli", "vdla.api", "vdla.__main__")),
    Room(5, ("scripts", "tests", "examples")),
)

# Packages whose __init__ runs before that of every room inside them, so it stands below them all.
GROUND = Room(-1, ("vdla", "vdla.hw", "vdla.compiler"))

STANDARD_LIBRARY_ONLY = (GROUND, ROOMS[0])

# Libraries that only some packages may import.
OWNERS = {
    "amaranth": ("vdla.hw", "vdla.runtime.devices.rtl"),
    "amaranth_boards": ("vdla.hw", "vdla.runtime.devices.rtl"),
    "grpc": ("vdla.runtime.devices.remote",),
    "litedram": ("vdla.boards",),
    "litex": ("vdla.boards", "vdla.runtime.devices.board"),
    "litex_boards": ("vdla.boards",),
    "migen": ("vdla.boards",),
    "serial": ("vdla.boards", "vdla.runtime.devices.board"),
    "onnx": ("vdla.compiler.graph.onnx",),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target, seen from the module that has it."""

    source: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}, imports {self.target}"


def is_inside(module: str, packages: tuple[str, ...]) -> bool:
    """Tell whether ``module`` is one of ``packages`` or lies in one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def room_of(module: str) -> Room | None:
    """Return the innermost room that holds ``module``; None when no room does."""
    if module in GROUND.packages:
        return GROUND
    holding = [
        (package, room) for room in ROOMS for package in room.packages if is_inside(module, (package,))
    ]
    return max(holding, key=lambda held: len(held[0]), default=("", None))[1]


def find_modules(package: Path) -> dict[str, Path]:
    """Return the file of every module below the folder ``package``, by the module's full name."""
    folders = os.walk(package, followlinks=True)
    files = (Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".py"))
    return {module_name(package, file): file for file in files}


def module_name(package: Path, file: Path) -> str:
    """Return the full name of the module in ``file``."""
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(module: str, file: Path, modules: Mapping[str, Path]) -> Iterator[Import]:
    """Yield every import in ``file``, wherever it stands in the text."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        match node:
            case ast.Import(names=names):
                yield from (Import(module, node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = absolute_base(node, module, file)
                yield from (Import(module, node.lineno, named(base, alias.name, modules)) for alias in names)


def absolute_base(node: ast.ImportFrom, module: str, file: Path) -> str:
    """Return what stands between ``from`` and ``import``, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = len(parts) - node.level + (file.name == "__init__.py")
    return ".".join(parts[:kept] + ([node.module] if node.module else []))


def named(base: str, name: str, modules: Mapping[str, Path]) -> str:
    """Return the module that ``from base import name`` reaches: the submodule when there is one, else
    ``base``."""
    submodule = f"{base}.{name}"
    return submodule if submodule in modules else base


def library_breach(found: Import, room: Room) -> str | None:
    """Say why ``found`` may not import the library it does; None when it may."""
    library = found.target.partition(".")[0]
    if room in STANDARD_LIBRARY_ONLY and library not in sys.stdlib_module_names:
        return f"{found}; only the standard library is allowed there"
    owners = OWNERS.get(library)
    if owners and not is_inside(found.source, owners):
        return f"{found}; only {' and '.join(owners)} may"
    return None


def floor_breach(found: Import, room: Room) -> str | None:
    """Say why ``found`` may not import the room it does; None when it may."""
    target = room_of(found.target)
    if target is None:
        return library_breach(found, room)
    if target is room or target.floor < room.floor:
        return None
    return f"{found}; floor {room.floor} may not import another room of floor {target.floor}"


def find_breaches(package: Path) -> list[str]:
    """Return a sentence for every import below ``package`` that the floors forbid."""
    modules = find_modules(package)
    return sorted(breach for module in modules for breach in breaches_of(module, modules))


def breaches_of(module: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield a sentence for every import of ``module`` that the floors forbid."""
    room = room_of(module)
    if room is None:
        yield f"{module} is in no room; add its package to ROOMS"
        return
    checked = (floor_breach(found, room) for found in imports_of(module, modules[module], modules))
    yield from (breach for breach in checked if breach)


def find_cycle(package: Path) -> list[str]:
    """Return the modules of one import cycle below ``package``, the first repeated last; empty when there is
    none."""
    modules = find_modules(package)
    graph = {
        name: {found.target for found in imports_of(name, file, modules)} for name, file in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def plant(folder: Path, files: Mapping[str, str]) -> Path:
    """Write ``files`` (text by path) as a package ``vdla`` in ``folder``; return the package."""
    for path, text in files.items():
        file = folder / "vdla" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder / "vdla"


def test_every_room_imports_only_itself_and_lower_floors():
    assert find_breaches(PACKAGE) == []


def test_no_modules_import_in_a_circle():
    assert find_cycle(PACKAGE) == []


def test_the_check_sees_the_package():
    assert {"vdla", "vdla.__main__", "vdla.cli", "vdla.hw", "vdla.sim", "vdla.compiler"} <= find_modules(
        PACKAGE
    ).keys()


UPWARD = "floor {} may not import another room of floor {}"
LIBRARY = "only the standard library is allowed there"
AMARANTH = "only vdla.hw and vdla.runtime.devices.rtl may"

FORBIDDEN = [
    ("hw/spec/isa.py", "import vdla.sim", UPWARD.format(0, 1)),
    ("hw/spec/isa.py", "import numpy", LIBRARY),
    ("hw/spec/isa.py", "from amaranth.hdl import Module", LIBRARY),
    ("hw/__init__.py", "import amaranth", LIBRARY),
    ("sim/timing.py", "import amaranth.hdl", AMARANTH),
    ("sim/timing.py", "def late():\n    from vdla import runtime", UPWARD.format(1, 2)),
    ("sim/timing.py", "from ..runtime import program", UPWARD.format(1, 2)),
    ("runtime/program.py", "from .devices import cycle", UPWARD.format(2, 3)),
    ("runtime/devices/cycle.py", "import amaranth", AMARANTH),
    ("runtime/program.py", "import onnx", "only vdla.compiler.graph.onnx may"),
    ("compiler/te/schedule.py", "from vdla.explore.tune import log", UPWARD.format(3, 4)),
    ("explore/tune/log.py", "from vdla.cli import main", UPWARD.format(4, 5)),
    ("explore/tune/log.py", "import scripts.demo", UPWARD.format(4, 5)),
]

ALLOWED = [
    ("hw/spec/isa.py", "import dataclasses\nfrom vdla.hw.spec import config\nfrom . import errors"),
    (
        "hw/core.py",
        "import amaranth\nfrom vdla.hw.spec.config import AcceleratorConfig\nfrom vdla.hw import gemm",
    ),
    ("sim/timing.py", "import numba\nimport numpy\nfrom vdla.hw.spec import isa"),
    (
        "runtime/devices/rtl/build.py",
        "import amaranth\nimport vdla.hw.core\nfrom vdla.runtime.devices import base",
    ),
    ("compiler/codegen/stream.py", "from vdla.compiler.te import schedule\nfrom vdla.runtime import program"),
    ("cli/sweep.py", "from vdla import __version__\nfrom vdla.explore.tune import log"),
]

FOLDERS = (".", "hw", "hw/spec", "sim", "runtime", "runtime/devices", "compiler")
PACKAGES = {f"{folder}/__init__.py": "" for folder in FOLDERS}


@pytest.mark.parametrize(("path", "text", "reason"), FORBIDDEN)
def test_a_planted_breach_is_reported(tmp_path, path, text, reason):
    breaches = find_breaches(plant(tmp_path, PACKAGES | {path: text}))
    assert len(breaches) == 1
    assert breaches[0].endswith(reason)


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_an_allowed_import_is_not_reported(tmp_path, path, text):
    assert find_breaches(plant(tmp_path, PACKAGES | {path: text})) == []


def test_a_breach_names_the_module_the_line_and_the_target(tmp_path):
    package = plant(tmp_path, PACKAGES | {"hw/spec/isa.py": "import enum\nfrom vdla.sim import timing"})
    assert find_breaches(package) == [
        "vdla.hw.spec.isa, line 2, imports vdla.sim; floor 0 may not import another room of floor 1"
    ]


def test_a_module_outside_every_room_is_reported(tmp_path):
    package = plant(tmp_path, PACKAGES | {"attic/box.py": ""})
    assert find_breaches(package) == ["vdla.attic.box is in no room; add its package to ROOMS"]


def test_a_planted_cycle_is_reported(tmp_path):
    files = {"sim/trace.py": "from vdla.sim import timing", "sim/timing.py": "from .trace import Trace"}
    cycle = find_cycle(plant(tmp_path, PACKAGES | files))
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"vdla.sim.trace", "vdla.sim.timing"}

"""The compiler loaded again in this process, with one module changed."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = "vdla"
STAYING = ("__main__", "break_compiler", "proving.compiler", "proving.forks", __name__)


def module_name(path: str) -> str:
    """Return the name of the module of a path below the root of the tree."""
    return ".".join((PACKAGE, *Path(path).with_suffix("").parts))


def unload(folders: tuple[str, ...]) -> None:
    """Forget the modules in some folders, and all that import them, so that the next import loads them
    again."""
    packages = tuple(module_name(folder) for folder in folders)
    gone = {name for name in sys.modules if name.startswith(packages)}
    while True:
        objects = {id(sys.modules[name]) for name in gone} | {
            id(value)
            for name in gone
            for value in vars(sys.modules[name]).values()
            if getattr(value, "__module__", None) == name
        }
        more = {name for name in _ours() if name not in gone and _refers(name, objects)}
        if not more:
            break
        gone |= more
    for name in gone:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(last, None)


def _ours() -> Iterator[str]:
    """Yield the names of the modules of this tree, but packages, and modules that start the campaign."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_ours = file and Path(file).is_relative_to(ROOT) and ".venv" not in file
        if is_ours and not hasattr(module, "__path__") and name not in STAYING:
            yield name


def _refers(name: str, objects: set[int]) -> bool:
    return any(id(value) in objects for value in vars(sys.modules[name]).values())


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Loads one module from another source."""

    def __init__(self, path: str, source: bytes) -> None:
        super().__init__(module_name(path), str(ROOT / "src" / PACKAGE / path))
        self._source = source

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return where the module is loaded from; None for others."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, name: str) -> CodeType:
        """Return the code of the changed source."""
        return compile(self._source, self.path, "exec", dont_inherit=True)


def change(path: str, source: bytes) -> None:
    """Let the next import of a module load another source."""
    sys.meta_path.insert(0, _Changed(path, source))


def lines_run(folders: tuple[str, ...], work: Callable[[], Any]) -> set[tuple[str, int]]:
    """Return the lines of modules in some folders that run, as paths below the root and numbers."""
    prefixes = {str(ROOT / "src" / PACKAGE / folder): folder for folder in folders}
    prefixes |= {str((ROOT / folder).resolve()): folder for folder in folders}
    known: dict[str, str | None] = {}
    run_lines: set[tuple[str, int]] = set()

    def path_of(file: str) -> str | None:
        if file not in known:
            fit = [(prefix, folder) for prefix, folder in prefixes.items() if file.startswith(f"{prefix}/")]
            known[file] = f"{fit[0][1]}{file.removeprefix(fit[0][0])}" if fit else None
        return known[file]

    def line(frame: FrameType, event: str, _: Any) -> Any:
        run_lines.add((known[frame.f_code.co_filename] or "", frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if path_of(frame.f_code.co_filename) else None

    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(None)
    return run_lines

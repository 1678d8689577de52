"""How inner loops are compiled: every part inlined into one function that runs without Python.

numba compiles them, once; they must not raise exceptions. The machine code is kept beside the source, as
Python keeps its bytecode, and later processes load it without numba, which takes a second to import.
"""

import hashlib
from collections.abc import Callable
from ctypes import CFUNCTYPE, Array, c_int64, c_void_p
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Generic, ParamSpec, TypeVar

import vdla.hw.spec
from vdla.hw.spec.cache import digest_of
from vdla.sim.arguments import Kind, flatten, kind_of
from vdla.sim.machine_code import CALLED, ENTRY, read_code, write_code
from vdla.sim.processor import engine_of, host_name

Function = TypeVar("Function", bound=Callable[..., object])
Arguments = ParamSpec("Arguments")

_parts: set[FunctionType] = set()


Entry = Callable[[Array[c_void_p], Array[c_int64]], int]
"""Takes objects and numbers, see `flatten`."""
_ENTRY = CFUNCTYPE(c_int64, c_void_p, c_void_p)


def part(function: Function) -> Function:
    """Mark a function that compiled functions call and inline; elsewhere it stays plain Python."""
    assert isinstance(function, FunctionType)
    _parts.add(function)
    return function


def procedure(function: Function) -> Function:
    """Mark a part that is called, where inlining a copy at each call would make machine code long."""
    part(function).__dict__[CALLED] = True
    return function


class Compiled(Generic[Arguments]):
    """A function that runs as machine code; `python` is its source. It returns nothing.

    Its arguments are numbers, arrays that are contiguous, their records, and named tuples of these.
    """

    def __init__(self, function: Callable[Arguments, None]) -> None:
        assert isinstance(function, FunctionType)
        self.python: FunctionType = function
        self._entries: list[tuple[list[object], Entry, object]] = []  # few, and records take long to hash

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        """Run it; arguments are given by place. Arrays are changed in place."""
        assert not named
        kinds: list[object] = []
        objects: list[int] = []
        numbers: list[int] = []
        for argument in arguments:
            flatten(argument, kinds, objects, numbers)
        entry = next((entry for known, entry, _ in self._entries if known == kinds), None)
        if entry is None:
            entry, owner = self._loaded(tuple(map(kind_of, arguments)))
            self._entries.append((kinds, entry, owner))
        entry((c_void_p * len(objects))(*objects), (c_int64 * len(numbers))(*numbers))

    def _loaded(self, kinds: tuple[Kind, ...]) -> tuple[Entry, object]:
        """Return the machine code for arguments of `kinds`, and what owns it."""
        place = Path(self.python.__code__.co_filename)
        key = digest_of([revision(place.parent), host_name(), repr(kinds)])
        name = f"{self.python.__name__}-{digest_of([repr(kinds)])[:8]}"
        code = read_code(place, name, key)
        if code is None:
            from vdla.sim.compiling import machine_code  # numba

            code = machine_code(self.python, kinds, _parts)
            write_code(place, name, key, code)
        engine = engine_of(code)
        return _ENTRY(engine.get_function_address(ENTRY)), engine


whole = Compiled


@cache
def revision(folder: Path) -> str:
    """Return a digest of the sources of a folder's machine code: the folder's sources, this package's
    and the specification's."""
    folders = dict.fromkeys((folder, Path(__file__).parent, Path(vdla.hw.spec.__file__).parent))
    texts = (path.read_bytes() for each in folders for path in sorted(each.rglob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()

"""Compiling functions to machine code with numba; `vdla.sim.compiled` imports this where none is kept.

Nothing in them allocates, so numba's reference counting is left out (`_nrt`): it would cost ten times what
the work does.
"""

import sys
from collections.abc import Set
from types import FunctionType

import llvmlite.binding as llvm
import numba
import numpy as np

from vdla.sim.arguments import ARRAY_DATA, ARRAY_EXTENTS, RECORD_DATA, Array, Kind, Named
from vdla.sim.machine_code import CALLED, ENTRY
from vdla.sim.processor import target_machine

OPTIONS = {"error_model": "numpy", "_nrt": False}
SIGNATURE = "int64(CPointer(CPointer(voidptr)), CPointer(int64))"
LIBRARY = ("memcpy", "memset", "memmove")  # what machine code may call: every process has it


def machine_code(function: FunctionType, kinds: tuple[Kind, ...], parts: Set[FunctionType]) -> bytes:
    """Return the object file of ENTRY(objects, numbers), which calls a function.

    Args:
        kinds: of its arguments.
        parts: functions that it may call.
    """
    entry = _entry(Jitted(parts).of(function, forceinline=False), kinds)
    compiled = numba.cfunc(SIGNATURE, error_model="numpy")(entry)
    module = llvm.parse_assembly(compiled.inspect_llvm())
    _export(module, compiled.native_name)
    machine = target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _optimise(module, machine)
    foreign = sorted(
        called.name
        for called in module.functions
        if called.is_declaration and not called.name.startswith("llvm.") and called.name not in LIBRARY
    )
    assert not foreign, (
        f"{function.__name__} calls {', '.join(foreign)}, which only numba provides: something in it can "
        "raise an exception, as a range does whose step is a variable"
    )
    code: bytes = machine.emit_object(module)
    return code


class Jitted:
    """Functions as numba takes them: copies whose global names lead to compiled parts."""

    def __init__(self, parts: Set[FunctionType]) -> None:
        self._parts = parts
        self._copies: dict[FunctionType, object] = {}
        self._names: dict[str, dict[str, object]] = {}  # global names, by module

    def of(self, function: FunctionType, *, forceinline: bool = True) -> object:
        """Return a function for others to call."""
        if function not in self._copies:
            copy = FunctionType(
                function.__code__,
                self._globals(function.__module__),
                function.__name__,
                function.__defaults__,
                function.__closure__,
            )
            self._copies[function] = numba.njit(
                forceinline=forceinline and not function.__dict__.get(CALLED), **OPTIONS
            )(copy)
        return self._copies[function]

    def _globals(self, module: str) -> dict[str, object]:
        if module not in self._names:
            names = self._names[module] = dict(vars(sys.modules[module]))
            for name, value in names.items():
                if isinstance(value, FunctionType) and value in self._parts:
                    names[name] = self.of(value)
        return self._names[module]


def _entry(function: object, kinds: tuple[Kind, ...]) -> FunctionType:
    """Return the Python function that makes arguments of objects and numbers, and calls `function`."""
    names: dict[str, object] = {"function": function, "carray": numba.carray, "int64": np.int64}
    places = {"objects": 0, "numbers": 0}
    arguments = [_argument(kind, names, places) for kind in kinds]
    text = f"def entry(objects, numbers):\n    function({', '.join(arguments)})\n    return 0\n"
    exec(compile(text, "<entry>", "exec"), names)
    entry = names["entry"]
    assert isinstance(entry, FunctionType)
    return entry


def _argument(kind: Kind, names: dict[str, object], places: dict[str, int]) -> str:
    """Return the expression that makes an argument."""

    def next_of(table: str) -> str:
        places[table] += 1
        return f"{table}[{places[table] - 1}]"

    match kind:
        case Array(dtype, rank):
            name = f"dtype{places['objects']}"
            names[name] = dtype
            of = next_of("objects")
            if rank is None:
                return f"carray({of}[{RECORD_DATA}], 1, {name})[0]"
            extents = f"carray({of}[{ARRAY_EXTENTS}], {rank}, int64)"
            shape = "".join(f"{extents}[{axis}], " for axis in range(rank))
            return f"carray({of}[{ARRAY_DATA}], ({shape}), {name})"
        case Named(form, members):
            names[form.__name__] = form
            return f"{form.__name__}({', '.join(_argument(member, names, places) for member in members)})"
        case _:
            return next_of("numbers")


def _export(module: llvm.ModuleRef, name: str) -> None:
    """Let `name` be the module's only function that other modules see, so that what its internal functions
    never do is known: numba's handling of exceptions and references then falls away."""
    for symbol in module.functions:
        if symbol.is_declaration:
            continue
        if symbol.name == name:
            symbol.name = ENTRY
        else:
            symbol.linkage = llvm.Linkage.internal
    for symbol in module.global_variables:
        if not symbol.is_declaration:
            symbol.linkage = llvm.Linkage.internal


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)

"""Native functions: emitted, optimised for this processor, and called with NumPy arrays."""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import llvmlite.binding as llvm
import numpy as np

from vdla.compiler.codegen.host.crew import LAUNCH, Crew
from vdla.compiler.codegen.host.emit import NAME, emit_module
from vdla.compiler.ir.interpret import Arrays, bound_arrays
from vdla.compiler.ir.nodes import Func, IrError, Write
from vdla.compiler.ir.rewrite import walk
from vdla.compiler.ir.verify import verify

VECTOR_BYTES = {"avx512f": 64, "avx": 32}
LEAST_VECTOR_BYTES = 16


@dataclass(frozen=True)
class HostFunction:
    """A compiled loop program; `engine` owns the code.

    Attributes:
        func: the program.
        optimised: its LLVM IR, as it was translated.
        crew: carries out its parallel loops.
    """

    func: Func
    optimised: str = field(repr=False)
    engine: llvm.ExecutionEngine = field(repr=False)
    crew: Crew = field(repr=False)

    @property
    def assembly(self) -> str:
        """Its machine code as text."""
        return _target_machine().emit_assembly(llvm.parse_assembly(self.optimised))

    def __call__(self, arguments: Mapping[str, np.ndarray]) -> None:
        """Run on arrays, one for each parameter, which it changes in place; as `interpret`, but for
        subscripts, which are not checked.

        Raises:
            IrError: an array is missing, has another shape or type, is not contiguous, or is written and
                shares memory with another.
        """
        arrays = bound_arrays(self.func, arguments, contiguous=True)
        _check_memory(self.func, arrays)
        kind = ctypes.CFUNCTYPE(None, LAUNCH, *[ctypes.c_void_p] * len(arrays))
        self.crew.call(
            kind(self.engine.get_function_address(NAME)),
            *(arrays[buffer.name].ctypes.data for buffer in self.func.params),
        )


def _check_memory(func: Func, arrays: Arrays) -> None:
    """Raises IrError where an array that is written may not be, or shares memory with another."""
    written = {part.buffer.name for part in walk(func.body) if isinstance(part, Write)} & arrays.keys()
    for name in sorted(written):
        if not arrays[name].flags.writeable:
            raise IrError(f"{func.name}: {name} is written, but its array is read-only; pass a copy")
    for one, other in combinations(arrays, 2):
        if {one, other} & written and np.may_share_memory(arrays[one], arrays[other]):
            raise IrError(
                f"{func.name}: {one} and {other} share memory, and one of them is written; pass a copy"
            )


def compile_host(func: Func, threads: int | None = None) -> HostFunction:
    """Return a loop program as native code.

    Args:
        threads: that carry out parallel loops; None: one for each processor.

    Raises:
        IrError: it is ill-formed, divides by what is no constant, or has a parallel loop whose iterations are
            not proved independent.
    """
    threads = threads or os.cpu_count() or 1
    verify(func)
    emitted = emit_module(func, threads, vector_bytes())
    machine = _target_machine()
    module = llvm.parse_assembly(str(emitted.module))
    _optimise(module, machine)
    optimised = str(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    crew = Crew(threads, [(engine.get_function_address(name), words) for name, words in emitted.bodies])
    return HostFunction(func, optimised, engine, crew)


def vector_bytes() -> int:
    """Return the size of this processor's vectors."""
    features = llvm.get_host_cpu_features()
    return next((size for name, size in VECTOR_BYTES.items() if features.get(name)), LEAST_VECTOR_BYTES)


def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        jit=True,
    )


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)

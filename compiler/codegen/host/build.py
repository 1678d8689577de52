"""Native functions: emitted, optimised for this processor, and called with NumPy arrays.

Loops that a schedule marks as vectorized or unrolled are left to LLVM's own vectoriser and unroller, and parallel ones run serially:
the marks are requests, and the result is the same.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

import llvmlite.binding as llvm
import numpy as np

from vdla.compiler.codegen.host.emit import NAME, emit_module
from vdla.compiler.ir.interpret import bound_arrays
from vdla.compiler.ir.nodes import Func


@dataclass(frozen=True)
class HostFunction:
    """A compiled loop program; `engine` owns the code.

    Attributes:
        func: the program.
        assembly: its machine code as text.
    """

    func: Func
    assembly: str = field(repr=False)
    engine: llvm.ExecutionEngine = field(repr=False)

    def __call__(self, arguments: Mapping[str, np.ndarray]) -> None:
        """Run on arrays, one for each parameter, which it changes in place; as `interpret`, but for subscripts, which are not checked.

        Raises:
            IrError: an array is missing, has another shape or type, or is not contiguous.
        """
        arrays = bound_arrays(self.func, arguments, contiguous=True)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))
        kind(self.engine.get_function_address(NAME))(*(arrays[buffer.name].ctypes.data for buffer in self.func.params))


def compile_host(func: Func) -> HostFunction:
    """Return a loop program as native code.

    Raises:
        IrError: it divides by what is no constant.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, reloc="default", jit=True)
    module = llvm.parse_assembly(str(emit_module(func)))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    assembly = machine.emit_assembly(module)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return HostFunction(func, assembly, engine)

"""This computer's processor, as LLVM sees it."""

from functools import cache

import llvmlite.binding as llvm


@cache
def host_features() -> llvm.FeatureMap:
    """Return which features this processor has: a dict of bool by LLVM's names."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_features()


@cache
def host_name() -> str:
    """Return the processor's name and features, which machine code is compiled for."""
    return f"{llvm.get_host_cpu_name()} {host_features().flatten()}"


def target_machine() -> llvm.TargetMachine:
    """Return what makes machine code for this process."""
    features = host_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


def engine_of(code: bytes) -> llvm.ExecutionEngine:
    """Return what owns the machine code of an object file, loaded into this process."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine

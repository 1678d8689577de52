"""Native code for one configuration: emitted, optimised for this processor, and called through ctypes."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import Opcode
from vdla.hw.spec.shelf import Shelf
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.compiled import revision
from vdla.sim.decoded import DecodedStream, slot_count
from vdla.sim.native.compute import emit_alu, emit_depthwise, emit_gemm, emit_pack_inp
from vdla.sim.native.dot import Dot, choose_dot
from vdla.sim.native.emit import DONE, I8, I64, POINTER, STATE, Emitter, i64
from vdla.sim.native.normalise import emit_normalise
from vdla.sim.native.steps import steps_at_once
from vdla.sim.native.store import emit_store
from vdla.sim.native.transfer import emit_loads
from vdla.sim.processor import engine_of, host_features, host_name, target_machine
from vdla.sim.scratchpads import Scratchpads

_ADDRESS, _COUNT = ctypes.c_uint64, ctypes.c_uint64
OBJECTS = Shelf("native_code", 64 << 20)
_BUDGET = STATE.index("budget")
_RUN = ctypes.CFUNCTYPE(ctypes.c_uint64, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _COUNT)


@dataclass(frozen=True)
class NativeCode:
    """Compiled functions of one configuration.

    Attributes:
        engine: owns the code.
        address: of `run`.
        budget: steps after which native code returns, so that Python hears signals; see `STATE`.
    """

    engine: llvm.ExecutionEngine
    address: int
    budget: int

    def run(self, program: DecodedStream, order: np.ndarray, pads: Scratchpads, dram: np.ndarray) -> int:
        """Execute instructions in order.

        It can be interrupted (KeyboardInterrupt): instructions up to some point have executed then and, of
        the next instruction, if it is a GEMM or ALU instruction, perhaps the first steps.

        Args:
            order: int64[n], their indices; all valid.
            pads: read and written.
            dram: uint8[bytes], contiguous; read and written.

        Returns:
            n, or the position in `order` of the first instruction that touches anything outside a memory:
            the instructions before it have executed, it has written nothing.
        """
        order, run = np.ascontiguousarray(order, np.int64), _RUN(self.address)
        state = np.array([_state_word(name, pads, dram) for name in STATE], np.int64)
        fixed = [array.ctypes.data for array in (state, program.table, program.opcode)]
        reached: int = 0
        while True:
            state[_BUDGET] = self.budget
            reached += int(run(*fixed, order.ctypes.data + reached * order.itemsize, len(order) - reached))
            if reached == len(order) or state[_BUDGET] > 0:
                return reached


def _state_word(name: str, pads: Scratchpads, dram: np.ndarray) -> int:
    if name == "dram_bytes":
        return len(dram)
    if name in ("budget", "first_out", "first_in"):
        return 0
    array: np.ndarray = dram if name == "dram" else getattr(pads, name)
    return array.ctypes.data


@lru_cache(maxsize=64)
def native_code_for(config: AcceleratorConfig, dot: Dot | None = None) -> NativeCode:
    """Compile the functions of `config`; a process does so once.

    Args:
        dot: how to multiply; None: the best this processor has.
    """
    dot = dot or choose_dot(host_features())
    key = _key(config, dot)
    code = OBJECTS.read(key)
    if code is None:
        code = _machine_code(config, dot)
        OBJECTS.write(key, code)
    engine = engine_of(code)
    return NativeCode(engine, engine.get_function_address("run"), steps_at_once(config))


def _key(config: AcceleratorConfig, dot: Dot) -> str:
    """Return a digest (hex) of whatever decides the machine code: the sources that emit it, the
    configuration, the processor and LLVM."""
    tools = llvmlite.__version__, llvm.llvm_version_info, _PIPELINE
    return digest_of([revision(Path(__file__).parent), config.digest, repr(dot), host_name(), repr(tools)])


def _machine_code(config: AcceleratorConfig, dot: Dot) -> bytes:
    """Return the object file of `config`'s functions."""
    module, machine = llvm.parse_assembly(str(emit_module(config, dot))), target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    _optimise(module, machine)
    code: bytes = machine.emit_object(module)
    return code


_PIPELINE = {"loop_vectorization": True, "loop_unrolling": False}
"""Unrolling doubles the time to compile and gains nothing: the loops that matter are spelt out."""


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    for name, value in _PIPELINE.items():
        setattr(options, name, value)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def emit_module(config: AcceleratorConfig, dot: Dot) -> ir.Module:
    """Return the IR of all functions and of `run(state, table, opcodes, order, count)`, which calls them in
    turn.

    It returns how many instructions it has executed: fewer than `count` where the budget is spent, or where
    there is some left and an instruction was refused.
    """
    module = ir.Module(name="vdla")
    pack_inp = emit_pack_inp(module, config)
    functions = {
        **emit_loads(module, config, dot, pack_inp),
        Opcode.STORE: emit_store(module, config, pack_inp),
        Opcode.GEMM: emit_gemm(module, config, dot),
        Opcode.ALU: emit_alu(module, config),
    }
    if config.has(Extension.DEPTHWISE):
        functions[Opcode.DEPTHWISE] = emit_depthwise(module, config)
    if config.has(Extension.NORMALISE):
        functions[Opcode.NORMALISE] = emit_normalise(module, config, pack_inp)
    _emit_run(module, functions, slot_count(config))
    return module


def _emit_run(module: ir.Module, functions: Mapping[Opcode, ir.Function], slots: int) -> None:
    e = Emitter(module, "run", [POINTER, POINTER, POINTER, POINTER, I64], exported=True)
    b = e.builder
    state, table, opcodes, order, count = e.arguments

    def step(position: ir.Value) -> None:
        budget = e.load(I64, e.at(state, i64(8 * _BUDGET)))
        with b.if_then(b.icmp_signed("<=", budget, i64(0)), likely=False):
            b.ret(position)
        index = e.load(I64, e.at(order, e.scaled(position, 8)))
        row = e.at(table, e.scaled(index, 8 * slots))
        after = b.append_basic_block("next")
        switch = b.switch(e.load(I8, e.at(opcodes, index)), after)
        for opcode, function in functions.items():
            block = b.append_basic_block(opcode.name)
            b.position_at_end(block)
            status = b.call(function, [state, row])
            with b.if_then(b.icmp_unsigned("!=", status, i64(DONE)), likely=False):
                b.ret(position)
            b.branch(after)
            switch.add_case(ir.Constant(I8, int(opcode)), block)
        b.position_at_end(after)

    e.loop(count, step)
    b.ret(count)

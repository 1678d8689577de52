"""The functional model: exact results of a program on scratchpads and DRAM, without timing."""

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.footprint import FOOTPRINTS, dram_access, forms_in_dram, stepping_forms
from vdla.hw.spec.memories import LOADABLE, MEMORIES, counted_as
from vdla.hw.spec.touched import happens, rows_in_dram
from vdla.hw.spec.units import Unit
from vdla.sim.access import check_access
from vdla.sim.decoded import DecodedStream
from vdla.sim.interleave import interleave
from vdla.sim.records import IntArray
from vdla.sim.reference import execute
from vdla.sim.rows import element_bytes, moved_memories
from vdla.sim.scratchpads import Scratchpads


class Machine:
    """An accelerator that executes whole instructions in an order that its tokens allow.

    Args:
        config: the accelerator.

    Attributes:
        pads: its scratchpads; they keep their contents from run to run.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        self.pads = Scratchpads(config)

    def run(
        self, program: DecodedStream, dram: np.ndarray, *, seed: int | None = None, native: bool = True
    ) -> np.ndarray:
        """Run a program to its end; return int64[n], the order in which its instructions executed.

        If the run fails, the effects of the instructions before remain, and the offending instruction has
        written nothing. If it is interrupted (KeyboardInterrupt), the effects of the instructions before
        remain, too, and the next instruction may have executed its first steps if it is a GEMM or ALU
        instruction.

        Args:
            program: decoded before anything executes.
            dram: uint8[bytes], contiguous; read and written.
            seed: None: program order if it is legal. Else the next unit is picked at random.
            native: False: execute with the NumPy reference instead of the native code.

        Raises:
            InvalidInstructionError, AccessError, DeadlockError, UnfinishedError: as for `Device.run`.
        """
        interleaving = interleave(program, seed)
        self.pads.clear_registers()
        if native:
            self._execute_natively(program, interleaving.order, dram)
        else:
            self._execute_by_reference(program, interleaving.order, dram)
        if interleaving.error:
            raise interleaving.error
        return interleaving.order

    def _execute_natively(self, program: DecodedStream, order: np.ndarray, dram: np.ndarray) -> None:
        from vdla.sim.native.build import native_code_for  # takes long to import, and timing needs none

        reached = native_code_for(self.config).run(program, order, self.pads, dram)
        if reached < len(order):
            check_access(program, int(order[reached]), self.pads.uop, len(dram))
            raise AssertionError(f"{program.describe(int(order[reached]))} was refused without reason")

    def _execute_by_reference(self, program: DecodedStream, order: np.ndarray, dram: np.ndarray) -> None:
        try:
            for index in order.tolist():
                check_access(program, index, self.pads.uop, len(dram))
                execute(program.instruction(index), self.pads, dram)
        finally:
            self.pads.refresh_operands()


COUNTED = {
    memory: f"{counted_as(memory).name}_{'LOADED' if memory in LOADABLE else 'STORED'}_BYTES"
    for memory in MEMORIES
}


def counters(program: DecodedStream, order: IntArray) -> dict[str, int]:
    """Return the bytes that the instructions of `order` moved and the steps that they executed.

    `<memory>_LOADED_BYTES` and `OUT_STORED_BYTES` count DRAM bytes, without padding; `GEMM_STEPS` (resets and
    DEPTHWISE too) and `ALU_STEPS` count as the registers of that name do; `<unit>_INSTRUCTIONS` count
    instructions.
    """
    stepping = {form: FOOTPRINTS[form].counter for form in stepping_forms()}
    counts = dict.fromkeys([*COUNTED.values(), *stepping.values()], 0)
    ran = program.part(order)
    for form in forms_in_dram():
        access, fields = dram_access(form), ran.fields(form)
        memories = moved_memories(ran, form)
        rows = rows_in_dram(access, fields, element_bytes(memories, fields, program.config))
        moved = np.where(happens(FOOTPRINTS[form], access, fields), rows.width * rows.count, 0)
        for memory, name in COUNTED.items():
            counts[name] += int(moved[memories == memory].sum())
    for form, counter in stepping.items():
        counts[counter] += int(ran.steps(form).sum())
    executed = np.bincount(program.unit[order], minlength=len(Unit))
    return counts | {f"{unit.name}_INSTRUCTIONS": int(executed[unit]) for unit in Unit}

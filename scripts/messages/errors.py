"""What to do about each class of errors."""

from vdla.boards.tools import ToolTimeoutError
from vdla.compiler.codegen.tuned.record import TuneError
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.ir.nodes import IrError
from vdla.compiler.network.stages import ChoiceError
from vdla.compiler.te.schedule import ScheduleError
from vdla.compiler.te.tensorize import MatchError
from vdla.explore.debug.recording import DebugError
from vdla.explore.sweep.errors import NoValueError, SweepError
from vdla.explore.workers.job import WorkerError
from vdla.export.c_text import ExportError
from vdla.hw.spec import errors
from vdla.hw.spec.errors import VdlaError
from vdla.prove.errors import ProofError, StoreError
from vdla.prove.launches import DifferenceError
from vdla.prove.proof import NotProvedError
from vdla.runtime.device import DeviceLostError
from vdla.runtime.host.evaluate import OperatorError
from vdla.runtime.module.plan import ModuleError
from vdla.runtime.samples import InputError
from vdla.sim.verify.verifier import VerificationError

REMEDIES: dict[type[VdlaError], str] = {
    errors.ConfigError: "Choose a value that the message allows ([configuration.md](configuration.md)).",
    errors.EncodingError: "Correct the field; its width follows from the configuration ([isa.md](isa.md)).",
    errors.AssemblyError: "Correct the line at the caret.",
    errors.FileFormatError: "Write the file again with the command or tool that makes it.",
    errors.OutputError: "Choose another folder, or make room on the disk.",
    errors.ToolError: "Install the tool that the message names; `make tools` checks the tools for the RTL.",
    ToolTimeoutError: "Run the command again on a less loaded machine, or with other `--seeds` "
    "([boards.md](boards.md)).",
    errors.DeviceError: "Follow the message. More DRAM (`dram_bytes`) or another alignment often helps.",
    DeviceLostError: "Check server and network, and run again ([remote.md](remote.md#when-something-fails)).",
    errors.ProgramError: "See the classes below, which derive from it.",
    errors.InvalidInstructionError: "See [FAULT.INVALID_INSTRUCTION](#faultinvalid_instruction).",
    errors.AccessError: "See [FAULT.SRAM_OVERRUN](#faultsram_overrun) and "
    "[FAULT.MEMORY_ERROR](#faultmemory_error).",
    errors.OverwriteError: "See [streams that write themselves](#streams-that-write-themselves).",
    errors.DeadlockError: "See [FAULT.DEADLOCK](#faultdeadlock).",
    errors.UnfinishedError: "See [FAULT.UNFINISHED](#faultunfinished).",
    VerificationError: "See [findings of the verifier](#findings-of-the-verifier).",
    errors.CycleLimitError: "Raise `cycle_limit`, or run fewer instructions.",
    ModuleError: "Compile the module again, or give the inputs that `vdla inspect` lists.",
    InputError: "Give samples of the forms in [networks.md](networks.md#samples-and-inputs).",
    OperatorError: "Report it with the model: operators are checked when a model is imported.",
    GraphError: "Follow the message; [networks.md](networks.md#bad-input) shows the usual reasons.",
    IrError: "Correct the loop program at the line of the message ([compiler.md](compiler.md)).",
    MatchError: "Change the schedule; the message shows the first difference from the intrinsic.",
    ScheduleError: "Apply the primitive to a loop or tensor that it takes ([schedules.md](schedules.md)).",
    ChoiceError: "Use a log that was tuned for this network and target, or leave `--tuned` out.",
    TuneError: "Correct the option or the line of the log that the message names ([tuning.md](tuning.md)).",
    SweepError: "Correct the key that the message names ([sweeps.md](sweeps.md#specification)).",
    NoValueError: "Correct the expression, or exclude the point by a constraint.",
    WorkerError: "Start the workers, and check the scheduler's address ([sweeps.md](sweeps.md#clusters)).",
    ExportError: "Follow the message; [export.md](export.md#operators-on-the-cpu) lists the operators that C "
    "has.",
    ProofError: "See [proofs.md](proofs.md#reading-a-failure).",
    StoreError: "See [proofs.md](proofs.md#reading-a-failure).",
    DifferenceError: "Compile the module again: its plan and its graph do not belong together.",
    DebugError: "Use a cycle, an instruction or a command that the message names "
    "([debugger.md](debugger.md#commands)).",
    NotProvedError: "See [proofs.md](proofs.md#reading-a-failure).",
}
"""Each class of errors that a user meets, in the order of the page."""


def meaning(error: type[VdlaError]) -> str:
    """Return the first paragraph of the docstring of a class."""
    return " ".join((error.__doc__ or "").split("\n\n")[0].split())

"""A device whose runs go through the AXI top and LiteDRAM's controller, both in Verilator."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sdram.controller import NAME, controller_verilog
from vdla.boards import sdram
from vdla.boards.sdram import part_at
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import CycleLimitError, DeviceError
from vdla.hw.spec.registers import COUNTERS, OFFSETS, Control, Status
from vdla.hw.verilog import emit
from vdla.runtime.device import DEFAULT_DRAM_BYTES
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.rtl.cache import built
from vdla.runtime.devices.rtl.design import core_sources
from vdla.runtime.devices.rtl.tools import compiler, run_tool, verilator_root, verilator_version
from vdla.sim.decoded import DecodedStream

HERE = Path(__file__).parent
POLLS = 4096  # reads of STATUS between two looks at the limit of cycles
LONGEST_RUN_CYCLES = 1 << 32
_WORD, _POINTER = ctypes.c_uint32, ctypes.c_void_p
_FUNCTIONS = {
    "system_create": ([_WORD], _POINTER),
    "system_destroy": ([_POINTER], None),
    "system_attach": ([_POINTER, _POINTER, ctypes.c_uint64], None),
    "system_detach": ([_POINTER], None),
    "system_read": ([_POINTER, _WORD], _WORD),
    "system_write": ([_POINTER, _WORD, _WORD], None),
    "system_start": ([_POINTER, _WORD, _WORD], None),
    "system_poll": ([_POINTER, _WORD, _WORD, ctypes.c_uint64], ctypes.c_bool),
}


@dataclass(frozen=True)
class System:
    """What a bench simulates.

    Attributes:
        config: the accelerator.
        part: name of LiteDRAM's module.
        clock_mhz: clock of accelerator, controller and SDRAM.
    """

    config: AcceleratorConfig
    part: str = "MT48LC16M16"
    clock_mhz: float = 50.0


class LiteDramDevice(CheckedDevice):
    """The AXI top in front of LiteDRAM.

    Args:
        system: what is simulated.
        dram_bytes: size of DRAM; addresses run from 0.
        phase: cycles from the controller's reset to the start of a run: 0, or at least 2.

    Raises:
        ToolError: a tool that builds the simulation is missing or fails.
    """

    name = "litedram"

    def __init__(self, system: System, dram_bytes: int = DEFAULT_DRAM_BYTES, phase: int = 0) -> None:
        super().__init__(system.config, dram_bytes)
        self._calls = ctypes.CDLL(str(build(system)))
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(self._calls, name)
            function.argtypes, function.restype = arguments, result
        self._phase = phase
        self._system = self._calls.system_create(phase)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation; the device cannot run afterwards."""
        system, self._system = getattr(self, "_system", None), None
        if system:
            self._calls.system_destroy(system)

    def reset(self) -> None:
        """Start the simulation anew; DRAM keeps its contents."""
        self.close()
        self._system = self._calls.system_create(self._phase)

    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[int, Mapping[str, int]]:
        """Run a stream; see `CheckedDevice`."""
        self._calls.system_attach(self._system, self.dram.ctypes.data, self.dram.size)
        self._write("STREAM_ADDRESS", stream_address & 0xFFFFFFFF)
        self._write("STREAM_ADDRESS_HIGH", stream_address >> 32)
        self._write("STREAM_COUNT", len(program))
        self._calls.system_start(self._system, OFFSETS["CONTROL"], Control.START)
        self._wait(LONGEST_RUN_CYCLES if cycle_limit is None else cycle_limit)
        self._calls.system_detach(self._system)
        if self._read("FAULT"):
            raise DeviceError(f"the run ended with fault {self._read('FAULT'):#x}")
        cycles = self._read("CYCLES") | self._read("CYCLES_HIGH") << 32
        return cycles, {name: self._read(name) for name in COUNTERS}

    def _wait(self, limit: int) -> None:
        """Wait for the end of a run, which a reset ends behind `limit` cycles."""
        for _ in range(0, limit, POLLS):
            if self._calls.system_poll(self._system, OFFSETS["STATUS"], Status.DONE, POLLS):
                return
        self.reset()
        raise CycleLimitError(f"the run was stopped at its limit of {limit} cycles; it had not finished")

    def _read(self, register: str) -> int:
        return int(self._calls.system_read(self._system, OFFSETS[register]))

    def _write(self, register: str, value: int) -> None:
        self._calls.system_write(self._system, OFFSETS[register], value)


def build(system: System) -> Path:
    """Return the shared library that simulates `system`; the cache keeps it.

    Raises:
        ToolError: a tool is missing or fails.
    """
    parts = [system.config.digest, core_sources(), verilator_version(), repr((system.part, system.clock_mhz))]
    parts += [f"{package} {version(package)}" for package in ("litex", "litedram", "migen")]
    parts += [
        Path(file).read_text() for file in (HERE / "harness.cpp", HERE / "controller.py", sdram.__file__)
    ]
    return built("litedram", digest_of(parts), lambda folder: _build(folder, system)) / "system.so"


def _build(folder: Path, system: System) -> None:
    config, address_bits = system.config, system.config.axi_address_width
    texts = {
        "accelerator.v": emit(config, top="axi"),
        f"{NAME}.v": controller_verilog(system.part, system.clock_mhz, config.bus_bits, address_bits),
        "bench.v": bench_verilog(config),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    root = verilator_root()
    options = [
        "--cc",
        "--no-timing",
        "-O3",
        "--x-initial",
        "0",
        "-Wno-fatal",
        "-Wno-lint",
        "--prefix",
        "Vtop",
    ]
    options += ["--Mdir", "model", "--top-module", "bench"]
    run_tool([root / "bin" / "verilator_bin", *options, *texts], folder, {"VERILATOR_ROOT": str(root)})
    include = root / "include"
    flags = [
        "-std=gnu++20",
        "-O2",
        "-fPIC",
        "-w",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
        "-DVM_TIMING=0",
        "-DVM_TRACE=0",
    ]
    flags += [f"-DCOLUMN_BITS={part_at(system.part, system.clock_mhz).geom_settings.colbits}"]
    flags += [f"-I{include}", f"-I{include / 'vltstd'}", "-Imodel"]
    files = [*sorted((folder / "model").glob("*.cpp")), HERE / "harness.cpp"]
    files += [include / f"{name}.cpp" for name in ("verilated", "verilated_threads")]
    run_tool([*compiler(), *flags, "-shared", "-o", "system.so", *files, "-lpthread"], folder)


def bench_verilog(config: AcceleratorConfig) -> str:
    """Return the Verilog that connects the AXI top with LiteDRAM; registers and resets are ports."""
    bus, address = config.bus_bits, config.axi_address_width
    wires = "".join(f"  wire [{width - 1}:0] {name};\n" for name, width in _axi_wires(bus, address).items())
    accelerator = ", ".join(f".m_axi_{name}({name})" for name in _axi_wires(bus, address))
    controller = ", ".join(f".{_litedram_port(name)}({name})" for name in _axi_wires(bus, address))
    return f"""\
module bench(
  input clk, input aresetn, input controller_reset,
  input [11:0] s_awaddr, input s_awvalid, output s_awready, input [31:0] s_wdata, input s_wvalid,
  input [11:0] s_araddr, input s_arvalid, input s_rready, output s_rvalid, output [31:0] s_rdata
);
{wires}
  vdla_axi accelerator(
    .aclk(clk), .aresetn(aresetn), {accelerator},
    .s_axi_awaddr(s_awaddr), .s_axi_awprot(3'd0), .s_axi_awvalid(s_awvalid), .s_axi_awready(s_awready),
    .s_axi_wdata(s_wdata), .s_axi_wstrb(4'd15), .s_axi_wvalid(s_wvalid), .s_axi_bready(1'd1),
    .s_axi_araddr(s_araddr), .s_axi_arprot(3'd0), .s_axi_arvalid(s_arvalid),
    .s_axi_rready(s_rready), .s_axi_rvalid(s_rvalid), .s_axi_rdata(s_rdata)
  );
  {NAME} memory(.sys_clk(clk), .sys_rst(controller_reset), {controller});
endmodule
"""


def _axi_wires(bus: int, address: int) -> dict[str, int]:
    """Return the wires of AXI between accelerator and controller, with their widths."""
    shared = {"addr": address, "len": 8, "size": 3, "burst": 2, "valid": 1, "ready": 1, "id": 1}
    wires = {f"{channel}{name}": width for channel in ("aw", "ar") for name, width in shared.items()}
    wires |= {"wdata": bus, "wstrb": bus // 8, "wlast": 1, "wvalid": 1, "wready": 1}
    wires |= {"bid": 1, "bresp": 2, "bvalid": 1, "bready": 1}
    return wires | {"rid": 1, "rdata": bus, "rresp": 2, "rlast": 1, "rvalid": 1, "rready": 1}


def _litedram_port(wire: str) -> str:
    """Return LiteDRAM's name of a wire of AXI."""
    channel = next(name for name in ("aw", "ar", "w", "b", "r") if wire.startswith(name))
    signal = wire.removeprefix(channel)
    if signal in ("valid", "ready", "last"):
        return f"{channel}_{signal}"
    return f"{channel}_param_id" if signal == "id" else f"{channel}_payload_{signal}"

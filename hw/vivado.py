"""The attributes of ports from which Vivado infers interfaces when a design takes the AXI top as a block.

Source: Vivado Design Suite User Guide UG994, "Inferring Control Signals in a RTL Module" and "Inferring AXI
Interfaces".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Value

from vdla.hw.axi import axi4_lite_signature, axi4_signature
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.registers import REGISTER_SPACE_BITS

INFO, PARAMETER = "X_INTERFACE_INFO", "X_INTERFACE_PARAMETER"
_SIGNALS = {
    "aclk": ("clock", "CLK", "ASSOCIATED_BUSIF m_axi:s_axi, ASSOCIATED_RESET aresetn"),
    "aresetn": ("reset", "RST", "POLARITY ACTIVE_LOW"),
    "interrupt": ("interrupt", "INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
}
MEMORY_BUS_BITS, REGISTER_BUS_BITS = 32, 12
"""Widths of addresses in a block design: a segment of registers has at least 4 KiB there."""
_MEMORY_ADDRESSES, _REGISTER_ADDRESSES = (
    tuple(f"{bus}_{channel}addr" for channel in ("aw", "ar")) for bus in ("m_axi", "s_axi")
)


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a memory bus of 32 address bits that the AXI top can reach.

    Byte 0 of the accelerator's DRAM is at `base` on the bus. Addresses beyond `size` wrap inside the window,
    so no stream touches other memory.

    Attributes:
        base: byte address on the bus, a multiple of `size`.
        size: bytes, a power of two of at least 4 KiB.

    Raises:
        ConfigError: base or size is another, or the window exceeds 32 bits.
    """

    base: int
    size: int

    def __post_init__(self) -> None:
        if self.size < 1 << REGISTER_BUS_BITS or self.size.bit_count() != 1:
            raise ConfigError(
                f"a window of {self.size:#x} bytes is not a power of two of at least 4 KiB; choose another "
                "size"
            )
        if self.base % self.size or not 0 <= self.base <= (1 << MEMORY_BUS_BITS) - self.size:
            raise ConfigError(
                f"a window of {self.size:#x} bytes at {self.base:#x} is not at a multiple of its size below "
                f"{1 << MEMORY_BUS_BITS:#x}; choose another base"
            )

    @property
    def widths(self) -> Mapping[str, int]:
        """The width of each port that is not as wide as on the AXI top."""
        return dict.fromkeys(_MEMORY_ADDRESSES, MEMORY_BUS_BITS) | dict.fromkeys(
            _REGISTER_ADDRESSES, REGISTER_BUS_BITS
        )

    def on_bus(self, port: str, value: Value) -> Value:
        """Return what the bus gets for the output `port` of the AXI top."""
        return (value & (self.size - 1)) | self.base if port in _MEMORY_ADDRESSES else value


def interface_attributes(
    config: AcceleratorConfig, window: Window | None = None
) -> dict[str, Mapping[str, str]]:
    """Return the attributes of each port of the AXI top. Attributes of a whole bus are at its first port.

    Args:
        window: as for `vdla.hw.verilog.emit`.
    """
    memory_bits = MEMORY_BUS_BITS if window else config.axi_address_width
    register_bits = REGISTER_BUS_BITS if window else REGISTER_SPACE_BITS
    lite = f"PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH {register_bits}, HAS_BURST 0"
    attributes: dict[str, Mapping[str, str]] = {}
    for port, (kind, role, parameters) in _SIGNALS.items():
        attributes[port] = _attributes("signal", kind, port, role, parameters)
    for bus, wires, parameters in (
        ("m_axi", axi4_signature(config).members, _master(config, memory_bits)),
        ("s_axi", axi4_lite_signature().members, lite),
    ):
        for index, wire in enumerate(wires):
            given = "" if index else parameters
            attributes[f"{bus}_{wire}"] = _attributes("interface", "aximm", bus, wire.upper(), given)
    return attributes


def _master(config: AcceleratorConfig, address_bits: int) -> str:
    return (
        f"PROTOCOL AXI4, DATA_WIDTH {config.bus_bits}, ADDR_WIDTH {address_bits}, ID_WIDTH 1, "
        f"MAX_BURST_LENGTH {config.burst_beats}, NUM_READ_OUTSTANDING {config.max_requests}, "
        "SUPPORTS_NARROW_BURST 0"
    )


def _attributes(library: str, kind: str, name: str, role: str, parameters: str) -> Mapping[str, str]:
    info = {INFO: f"xilinx.com:{library}:{kind}:1.0 {name} {role}"}
    return info | ({PARAMETER: f"XIL_INTERFACENAME {name}, {parameters}"} if parameters else {})

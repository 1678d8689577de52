"""The attributes of ports from which Vivado infers interfaces when a design takes the AXI top as a block.

Source: Vivado Design Suite User Guide UG994, "Inferring Control Signals in a RTL Module" and "Inferring AXI
Interfaces".
"""

from collections.abc import Mapping

from vdla.hw.axi import axi4_lite_signature, axi4_signature
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import REGISTER_SPACE_BITS

INFO, PARAMETER = "X_INTERFACE_INFO", "X_INTERFACE_PARAMETER"
_SIGNALS = {
    "aclk": ("clock", "CLK", "ASSOCIATED_BUSIF m_axi:s_axi, ASSOCIATED_RESET aresetn"),
    "aresetn": ("reset", "RST", "POLARITY ACTIVE_LOW"),
    "interrupt": ("interrupt", "INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
}


def interface_attributes(config: AcceleratorConfig) -> dict[str, Mapping[str, str]]:
    """Return the attributes of each port of the AXI top. Those of a whole bus are at its first port."""
    lite = f"PROTOCOL AXI4LITE, DATA_WIDTH 32, ADDR_WIDTH {REGISTER_SPACE_BITS}, HAS_BURST 0"
    attributes: dict[str, Mapping[str, str]] = {}
    for port, (kind, role, parameters) in _SIGNALS.items():
        attributes[port] = _attributes("signal", kind, port, role, parameters)
    for bus, wires, parameters in (
        ("m_axi", axi4_signature(config).members, _master(config)),
        ("s_axi", axi4_lite_signature().members, lite),
    ):
        for index, wire in enumerate(wires):
            given = "" if index else parameters
            attributes[f"{bus}_{wire}"] = _attributes("interface", "aximm", bus, wire.upper(), given)
    return attributes


def _master(config: AcceleratorConfig) -> str:
    return (
        f"PROTOCOL AXI4, DATA_WIDTH {config.bus_bits}, ADDR_WIDTH {config.axi_address_width}, ID_WIDTH 1, "
        f"MAX_BURST_LENGTH {config.burst_beats}, NUM_READ_OUTSTANDING {config.max_requests}, "
        "SUPPORTS_NARROW_BURST 0"
    )


def _attributes(library: str, kind: str, name: str, role: str, parameters: str) -> Mapping[str, str]:
    info = {INFO: f"xilinx.com:{library}:{kind}:1.0 {name} {role}"}
    return info | ({PARAMETER: f"XIL_INTERFACENAME {name}, {parameters}"} if parameters else {})

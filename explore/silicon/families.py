"""FPGA families: how Yosys synthesises for them, and which cells count as which resource."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vdla.hw.spec.errors import ConfigError

RESOURCES = ("lut", "ff", "dsp", "block_ram")


@dataclass(frozen=True, slots=True)
class Family:
    """An FPGA family.

    Attributes:
        synthesis: Yosys commands, with {module} for the top. They flatten the design: with the hierarchy
            kept, abc9 fails on the requantiser.
        alone: commands before `synthesis`, for a component that is synthesised alone. abc9 spends LUTs on the
            slowest paths of what it maps. It is told the period of a core, so that it maps a component as it
            does inside a core, where other paths are the slowest.
        weights: for each resource, the weight of each kind of cell.
    """

    synthesis: str
    alone: str
    weights: Mapping[str, Mapping[str, float]]

    def count(self, cells: Mapping[str, int]) -> dict[str, float]:
        """Return the resources of cells, given by kind."""
        return {
            resource: float(sum(cells.get(cell, 0) * weight for cell, weight in weights.items()))
            for resource, weights in self.weights.items()
        }


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "ecp5": Family(
            synthesis="synth_ecp5 -top {module}",
            alone="scratchpad -set abc9.D 30000; ",
            weights={
                "lut": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4},
                "ff": {"TRELLIS_FF": 1},
                "dsp": {"MULT18X18D": 1},
                "block_ram": {"DP16KD": 1},
            },
        ),
        "xc7": Family(
            # abc in place of abc9, whose WebAssembly build fails on designs of this size; its LUTs stay
            # unmapped, to be counted
            synthesis="synth_xilinx -family xc7 -flatten -top {module} -run :map_luts; "
            "abc -luts 2:2,3,6:5,10,20; clean; autoname",
            alone="",
            weights={
                "lut": {
                    "$lut": 1,
                    "RAM32M": 4,
                    "RAM64M": 4,
                    "RAM32X1D": 2,
                    "RAM64X1D": 2,
                    "SRL16E": 1,
                    "SRLC32E": 1,
                },
                "ff": dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), 1),
                "dsp": {"DSP48E1": 1},
                "block_ram": {"RAMB36E1": 1, "RAMB18E1": 0.5},
            },
        ),
    }
)


def family(name: str) -> Family:
    """Return the family called `name`.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in FAMILIES:
        raise ConfigError(f"FPGA family {name!r} is unknown; there are {', '.join(FAMILIES)}")
    return FAMILIES[name]

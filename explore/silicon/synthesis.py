"""Synthesis by Yosys for an FPGA family: the mapped netlist, what it takes, and which unit takes what."""

import gzip
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vdla.boards.tools import with_marked_indices, with_plain_indices, yosys
from vdla.explore.silicon import netlist as netlist_module
from vdla.explore.silicon.families import RESOURCES, family
from vdla.explore.silicon.hardware import MODULE, verilog_of
from vdla.explore.silicon.netlist import Netlist, units_of
from vdla.explore.silicon.remembered import remember
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.devices.rtl.cache import built

Tell = Callable[[str], None]
"""Takes a line about work that takes minutes."""


@dataclass(frozen=True, slots=True)
class Area:
    """What a design takes after synthesis, before placement.

    Attributes:
        lut, ff, dsp, block_ram: as in `Silicon`.
        hierarchy: the same of each unit, by its path; equal lanes are one entry. They sum to the whole.
    """

    lut: float
    ff: float
    dsp: float
    block_ram: float
    hierarchy: Mapping[str, Mapping[str, float]]


def silent(line: str) -> None:
    """Drop a line about work."""


def synthesise(verilog: str, module: str, family_name: str, *, alone: bool = False) -> Netlist:
    """Return the mapped netlist of `module`.

    Args:
        verilog: with sub-modules named by their path, as `vdla.hw.verilog` writes it.
        family_name: one of `FAMILIES`.
        alone: the module is a component of a core.

    Raises:
        ToolError: Yosys is missing or fails.
        ConfigError: there is no such family.
    """
    chosen = family(family_name)
    commands = chosen.alone * alone + chosen.synthesis.format(module=module)
    tool = yosys("synthesis")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.v").write_text(with_marked_indices(verilog))
        script = f"read_verilog -sv design.v; {commands}; select {module}; write_json -selected out.json"
        tool.run(["-q", "-l", "yosys.log", "-p", script], folder, "yosys.log")
        written = with_plain_indices((folder / "out.json").read_text())
    modules: dict[str, Any] = json.loads(written)["modules"]
    return Netlist(modules[module], units_of(verilog, module))


def netlist_key(config: AcceleratorConfig, family_name: str) -> str:
    """Return the key of a core's netlist: a digest of its Verilog, the commands and the tool."""
    version = yosys("synthesis").version  # where there is none, this says so before Verilog is emitted
    return digest_of([verilog_of(config), family(family_name).synthesis, version])


def netlist_of(config: AcceleratorConfig, family_name: str, tell: Tell = silent) -> Netlist:
    """Return the core's netlist, synthesised once for each hardware, family and version of Yosys.

    Raises:
        ToolError: Yosys is missing or fails.
    """

    def work(folder: Path) -> None:
        """Synthesise, and keep the netlist in `folder`."""
        tell(f"synthesising {config.name} for {family_name}; this takes from one to some tens of minutes")
        module = synthesise(verilog_of(config), MODULE, family_name).module
        (folder / "netlist.json.gz").write_bytes(gzip.compress(json.dumps(module).encode(), 1))

    kept = built("netlist", netlist_key(config, family_name), work) / "netlist.json.gz"
    return Netlist(json.loads(gzip.decompress(kept.read_bytes())), units_of(verilog_of(config), MODULE))


def area_of(config: AcceleratorConfig, family_name: str, tell: Tell = silent) -> Area:
    """Return what the core takes after synthesis; kept between processes.

    Raises:
        ToolError: Yosys is missing or fails.
    """
    counting = Path(netlist_module.__file__).read_bytes()
    weights = json.dumps({name: dict(of) for name, of in family(family_name).weights.items()})
    key = digest_of([netlist_key(config, family_name), weights, counting, Path(__file__).read_bytes()])

    def work(folder: Path) -> None:
        """Count, and keep the counts in `folder`."""
        area = measure(netlist_of(config, family_name, tell), family_name)
        (folder / "area.json").write_text(json.dumps(asdict(area)))

    area = Area(**json.loads((built("area", key, work) / "area.json").read_text()))
    remember(config, family_name, {resource: getattr(area, resource) for resource in RESOURCES})
    return area


def measure(netlist: Netlist, family_name: str) -> Area:
    """Count the resources of a netlist and of each unit in it."""
    counts = family(family_name).count
    hierarchy: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(RESOURCES, 0.0))
    for unit, kinds in netlist.kinds_by_unit().items():
        for resource, amount in counts(kinds).items():
            hierarchy[unit_name(unit)][resource] += amount
    taken = {unit: resources for unit, resources in hierarchy.items() if any(resources.values())}
    order = sorted(taken, key=lambda unit: (-taken[unit]["lut"], unit))
    return Area(**counts(netlist.kinds()), hierarchy={unit: taken[unit] for unit in order})


def unit_name(path: str) -> str:
    """Return a unit's path as reports show it: without the datapath around all units and lanes' numbers."""
    return re.sub(r"_\d+(?=\.|$)", "", path.removeprefix("datapath."))

"""Programs that stand in for the FPGA tools: quick, and they say what they were called with."""

import json
import sys
from pathlib import Path

import pytest

from vdla.boards.build import HEADROOM

CELLS = {
    "TRELLIS_COMB": {"used": 14495, "available": 83640},
    "TRELLIS_FF": {"used": 9000, "available": 83640},
    "MULT18X18D": {"used": 70, "available": 156},
    "DP16KD": {"used": 50, "available": 208},
}


def report(mhz: float, asked: float) -> dict:
    """Return a report as nextpnr writes it, with two clocks; the system clock, of `asked` MHz, has the least room."""
    start = {"cell": "vdla_axi.top.core.control.run_TRELLIS_FF_Q", "loc": [1, 2], "port": "Q"}
    middle = {"cell": "vdla_axi.top.core.dma.sum_LUT4_Z_1", "loc": [3, 4], "port": "A"}
    end = {"cell": "sdram.bank_TRELLIS_FF_Q_3", "loc": [5, 6], "port": "DI"}
    hops = [
        {"type": "clk-to-q", "delay": 0.5, "from": start, "to": start},
        {"type": "routing", "delay": 9.25, "from": start, "to": middle},
        {"type": "logic", "delay": 0.25, "from": middle, "to": middle},
        {"type": "routing", "delay": 2.0, "from": middle, "to": end},
    ]
    return {
        "fmax": {
            "$glbnet$sys_clk": {"achieved": mhz, "constraint": asked * HEADROOM},
            "$glbnet$por_clk": {"achieved": 400.0, "constraint": 25.0},
        },
        "critical_paths": [
            {"from": "<async>", "to": "posedge $glbnet$sys_clk", "path": hops[:1]},
            {"from": "posedge $glbnet$sys_clk", "to": "posedge $glbnet$sys_clk", "path": hops},
        ],
        "utilization": CELLS,
    }


_YOSYS = """
name = next(word for word in " ".join(words).split() if word.endswith("netlist.json"))
Path(name).write_text('{"modules": {"a<1><3>": 1}}')
"""
_NEXTPNR = """
seed = words[words.index("--seed") + 1]
assert '"a[1][3]"' in Path("netlist.json").read_text()
pins = Path("pins.lpf").read_text()
assert "LOCATE COMP" in pins
if Path(HERE, f"endless_{seed}").exists():
    time.sleep(60)  # a router that does not end: the limit of the stage ends this program
Path(HERE, "pins.lpf").write_text(pins)
Path("out.config").write_text("placement " + seed)
Path("report.json").write_text(Path(HERE, f"report_{seed}.json").read_text())
"""
_ECPPACK = """
Path(words[words.index("--bit") + 1]).write_bytes(b"bits of " + Path("in.config").read_bytes())
"""
_LOADER = """
print("a board said no", file=sys.stderr) if Path(HERE, "refuse").exists() else None
sys.exit(Path(HERE, "refuse").exists())
"""
_PROGRAMS = {
    "yosys": ("Yosys 0.99", _YOSYS),
    "nextpnr-ecp5": ("nextpnr 9", _NEXTPNR),
    "ecppack": ("ecppack 9", _ECPPACK),
    "openFPGALoader": ("openFPGALoader v9", _LOADER),
}


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mhz_of_seed: dict[int, float], asked: float
) -> None:
    """Put the programs on PATH. They append their arguments to `calls` in the folder.

    Args:
        mhz_of_seed: clock that nextpnr reports for each seed.
        asked: the system clock, which it was asked for with headroom.
    """
    for seed, mhz in mhz_of_seed.items():
        (folder / f"report_{seed}.json").write_text(json.dumps(report(mhz, asked)))
    for name, (version, body) in _PROGRAMS.items():
        script = folder / name
        script.write_text(
            f"#!{sys.executable}\nimport json, sys, time\nfrom pathlib import Path\n"
            f"HERE = {str(folder)!r}\nwords = sys.argv[1:]\n"
            f"if words in (['-V'], ['--version'], ['--Version']):\n    print({version!r})\n    sys.exit()\n"
            f"with open(Path(HERE, 'calls'), 'a') as log:\n    log.write(json.dumps([{name!r}, *words]) + '\\n')\n"
            f"{body}"
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def calls(folder: Path) -> list[list[str]]:
    """Return the calls of the programs, without those that ask for a version: name and arguments."""
    log = folder / "calls"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

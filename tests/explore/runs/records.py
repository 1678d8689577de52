"""Hand-written records of runs."""

from collections.abc import Sequence

import msgspec

from vdla.explore.runs.record import LayerRecord, RunRecord, SummaryRecord, TargetRecord

ENERGY_PJ_PER_CYCLE = 2e4
PARAMETERS = {"block_in": 16, "clock_mhz": 100.0, "extensions": ("table", "gather")}


def layer(name: str, cycles: int | None = 100, operators: str = "", **values) -> LayerRecord:
    """Return a layer; a layer without cycles runs on the host. `operators` are names with spaces between."""
    given = {
        "op": "Int8Conv",
        "on": "host" if cycles is None else "accelerator",
        "bytes_read": 10 * (cycles or 0),
        "bytes_written": cycles or 0,
        "energy_pj": None if cycles is None else ENERGY_PJ_PER_CYCLE * cycles,
        "bound": "" if cycles is None else "compute",
    }
    return LayerRecord(name=name, cycles=cycles, operators=tuple(operators.split()), **given | values)


def run(
    layers: Sequence[LayerRecord],
    *,
    outside: int = 0,
    preset: str = "default",
    network: str = "net",
    clock_hz: float = 1e8,
    launches: int = 1,
    instructions: int = 9,
    **values,
) -> RunRecord:
    """Return a run with the sums of its layers as totals.

    Args:
        outside: cycles that belong to no layer.
    """
    energy = sum(each.energy_pj or 0 for each in layers) + ENERGY_PJ_PER_CYCLE * outside
    given = {
        "device": "cycle",
        "cycles": sum(each.cycles or 0 for each in layers) + outside,
        "macs": 1000,
        "energy_pj": energy,
        "target": TargetRecord(preset, "0" * 64, PARAMETERS),
    }
    summary = SummaryRecord(network, preset, clock_hz, launches, instructions)
    return RunRecord(layers=tuple(layers), summary=summary, **given | values)


def text(record: RunRecord) -> bytes:
    """Return a record as a file holds it."""
    return msgspec.json.encode(record)

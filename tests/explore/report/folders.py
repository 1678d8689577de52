"""A synthetic sweep folder, for tests of the pages: sizes of a real sweep, values from a formula."""

import json
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vdla.explore.report.sweep_page import AREA_COLUMNS, CLOCK_COLUMNS
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import to_toml

MILLIONS = (118, 462, 231, 115, 57, 7)
LAYERS = (
    *((f"Conv_{number}", "Int8Conv", "accelerator", macs) for number, macs in enumerate(MILLIONS, 1)),
    ("Softmax_9", "Softmax", "host", 0),
)
BOUNDS = ("compute", "memory", "latency")
PARAMETERS = ("block_out", "block_in", "wgt_buffer_bytes", "bus_bits", "memory.latency")
SHARED = {"acc_buffer_bytes": 32768}
VERDICTS = ("within", "perhaps", "beyond")
WHY = "lut 20,000, at most 12,000"
FAILED = "acc_buffer_bytes = 1024 holds no tile of Conv_2"


def grid(count: int) -> list[dict[str, int]]:
    """Return the first `count` points of a grid of targets."""
    values = product(
        (64, 400, *range(32, 40)), (64, 128, 256), (16384, 32768, 65536), (8, 16, 32), (8, 16, 32, 64)
    )
    points = (dict(zip(PARAMETERS, reversed(point), strict=True)) for point in values)
    return [point for _, point in zip(range(count), points, strict=False)]


def layer_rows(number: int, point: dict[str, int], workload: str, scale: int, repeats: int) -> list[dict]:
    """Return the rows of the layers of a point on a workload."""
    peak, bus = point["block_in"] * point["block_out"], point["bus_bits"] // 8
    rows = []
    for index, (name, op, on, millions) in enumerate(LAYERS * repeats):
        macs, host = millions * 10_000 * scale, on == "host"
        read = macs // (37 + index) + point["memory.latency"] + number
        compute, memory = macs // peak, read // bus
        cycles = (
            None if host else max(compute, memory) + min(compute, memory) // 4 + 40 * point["memory.latency"]
        )
        rows.append({
            "point": number, "workload": workload, "layer": index, "name": f"{name}_{index}", "op": op, "on": on,
            "cycles": cycles, "macs": macs, "utilisation": None if host else compute / cycles,
            "bytes_read": 0 if host else read, "bytes_written": 0 if host else macs // 211,
            "energy_pj": None if host else 0.93 * macs + 243.7 * read,
            "bound": "" if host else BOUNDS[0] if compute > 0.6 * cycles else BOUNDS[1] if memory > 0.6 * cycles else BOUNDS[2],
        })  # fmt: skip
    return rows


def point_row(number: int, point: dict[str, int], workload: str, layers: list[dict]) -> dict:
    """Return the row of a point on a workload; every 13th point failed."""
    timed = [layer for layer in layers if layer["cycles"]]
    peak = point["block_in"] * point["block_out"]
    cycles, macs = sum(layer["cycles"] for layer in timed), sum(layer["macs"] for layer in timed)
    mhz = 60 - 3 * (peak.bit_length() - 7)
    row = {"point": number, **point, **SHARED, "workload": workload, "digest": f"{number:064x}"}
    if number % 13 == 12:
        empty = dict.fromkeys(
            ("cycles", "seconds", "utilisation", "macs", "bytes_read", "bytes_written", "energy_pj")
        )
        area = dict.fromkeys((*AREA_COLUMNS, *CLOCK_COLUMNS))
        return row | empty | area | {"status": FAILED}
    return row | {
        "cycles": cycles, "seconds": cycles / (mhz * 1e6), "utilisation": macs / peak / cycles, "macs": macs,
        "bytes_read": sum(layer["bytes_read"] for layer in timed),
        "bytes_written": sum(layer["bytes_written"] for layer in timed),
        "energy_pj": sum(layer["energy_pj"] for layer in timed),
        "lut": 4000.0 + 62 * peak + 9 * point["bus_bits"], "ff": 3000.0 + 31.5 * peak, "dsp": float(peak // 2),
        "block_ram": point["wgt_buffer_bytes"] / 2304 + 12, "mhz": float(mhz), "area_source": "estimated",
        "mhz_low": 0.9 * mhz, "mhz_high": 1.1 * mhz, "mhz_limited_by": "compute_unit.pipeline",
        "clock_source": "routed" if peak == 256 else "estimated", "status": "ok",
    }  # fmt: skip


def write_sweep(
    folder: Path,
    points: int = 40,
    workloads: tuple[str, ...] = ("resnet", "mobilenet"),
    repeats: int = 1,
    model: str = "net.onnx",
    limits: tuple[dict, ...] = (),
) -> Path:
    """Write the three files of a sweep; `model` is the ONNX file of the first workload, the others have none.

    Every third point is within the limits, if there are any, the next may be, and the third is not.
    """
    rows, layers = [], []
    for number, point in enumerate(grid(points)):
        for scale, workload in enumerate(workloads, 1):
            point_layers = layer_rows(number, point, workload, scale, repeats)
            rows.append(point_row(number, point, workload, point_layers))
            if limits:
                verdict = VERDICTS[number % 3] if rows[-1]["status"] == "ok" else None
                rows[-1] |= {"limits": verdict, "limits_why": "" if verdict in (None, "within") else WHY}
            layers += point_layers if rows[-1]["status"] == "ok" else []
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "points.parquet")
    pq.write_table(pa.Table.from_pylist(layers), folder / "layers.parquet")
    about = {
        "parameters": [*PARAMETERS, *SHARED], "base": {"name": "default"}, "base_toml": to_toml(Target()), "family": "ecp5",
        "specification": {"workloads": [{"model": model, "name": workloads[0]}, {"suite": "layers"}]},
        "limits": list(limits), "version": "0.1.0", "sources": "ab" * 32, "created": "2026-01-02 03:04:05",
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(about))
    return folder

"""The page of a sweep."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vdla.explore.report.numbers import short
from vdla.explore.report.page import write_page
from vdla.explore.sweep.identity import IDENTITY, read_identity
from vdla.hw.spec.errors import FileFormatError, VdlaError
from vdla.hw.spec.showing import short as as_text
from vdla.hw.spec.target import ClockSource, Target
from vdla.hw.spec.target_files import CLOCK, CLOCK_SOURCE, apply_settings, from_toml

POINTS, LAYERS = "points.parquet", "layers.parquet"
OK = "ok"
SILICON_CLOCKS = (ClockSource.ESTIMATED, ClockSource.EXTRAPOLATED, ClockSource.ROUTED)
AREA_COLUMNS = ("lut", "ff", "dsp", "block_ram", "area_source")
CLOCK_COLUMNS = ("mhz", "mhz_low", "mhz_high", "mhz_limited_by", "clock_source")
SILICON = (*AREA_COLUMNS, *CLOCK_COLUMNS, "digest")
RUN = ("cycles", "seconds", "utilisation", "macs", "bytes_read", "bytes_written", "energy_pj", "status")
SOME = ("default_cycles", "limits", "limits_why")  # of sweeps that tune, and of sweeps with limits
LAYER_SHAPE = ("name", "op", "on", "macs")
LAYER_VALUES = ("cycles", "bytes_read", "bytes_written", "energy_pj", "bound")
Columns = Mapping[str, Sequence[Any]]
REPORT = "report.html"
SCRIPTS = (
    "fields.js",
    "limits.js",
    "state.js",
    "pareto.js",
    "parallel.js",
    "layers.js",
    "beside.js",
    "detail.js",
    "link.js",
    "sweep.js",
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep as its folder holds it.

    Attributes:
        name: of the folder.
        about: what `sweep.json` says.
        points: columns of `points.parquet`: a row for each point and workload.
        layers: columns of `layers.parquet`: a row for each point, workload and layer.
    """

    name: str
    about: Mapping[str, Any]
    points: Columns
    layers: Columns


def read_sweep(folder: Path) -> Sweep:
    """Read the files of a sweep.

    Raises:
        SweepError: `sweep.json` is missing or damaged.
        FileFormatError: a table is missing, damaged, or lacks a column.
    """
    about = read_identity(folder)
    parameters = about["parameters"]
    points = _read_table(folder / POINTS, ("point", "workload", *parameters, *SILICON, *RUN), SOME)
    layers = _read_table(folder / LAYERS, ("point", "workload", "layer", *LAYER_SHAPE, *LAYER_VALUES))
    return Sweep(folder.resolve().name, about, points, layers)


def _read_table(path: Path, wanted: Sequence[str], more: Sequence[str] = ()) -> Columns:
    """Return the wanted columns of a Parquet file as lists, and the columns of `more` that it has."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            missing = [name for name in wanted if name not in file.schema_arrow.names]
            if missing:
                raise FileFormatError(
                    f"{path} has no column {as_text(', '.join(missing))}; run the sweep again"
                )
            present = [*wanted, *(name for name in more if name in file.schema_arrow.names)]
            table = file.read(present)
    except (OSError, ArrowException) as error:
        raise FileFormatError(f"{path} cannot be read: {error}; run the sweep again") from error
    columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in present}
    return columns


def page_data(sweep: Sweep) -> dict[str, Any]:
    """Return everything that the page shows, as JSON values.

    Points are in ascending order, and every column of `points` and of each workload has one value per point.
    """
    numbers = sorted(set(sweep.points["point"]))
    place = {number: index for index, number in enumerate(numbers)}
    workloads = list(dict.fromkeys(sweep.points["workload"]))
    return {
        "name": sweep.name,
        **{key: sweep.about.get(key) for key in ("version", "sources", "family", "created")},
        "parameters": sweep.about["parameters"],
        "limits": sweep.about.get("limits", []),
        "objectives": sweep.about["specification"].get("objectives", []),
        "points": {"point": numbers, **_point_columns(sweep, place)},
        "workloads": [
            {
                "name": workload,
                "model": _model_of(sweep.about, workload),
                "runs": _run_columns(sweep.points, workload, place),
                "layers": _layer_columns(sweep.layers, workload, place),
            }
            for workload in workloads
        ],
    }


def _point_columns(sweep: Sweep, place: Mapping[int, int]) -> dict[str, Any]:
    """Return parameters, area, clock, settings and roof of each point."""
    names = (*sweep.about["parameters"], *SILICON)
    first = {number: row for row, number in reversed(list(enumerate(sweep.points["point"])))}
    rows = [first[number] for number in place]
    columns: dict[str, Any] = {name: [short(sweep.points[name][row]) for row in rows] for name in names}
    settings = [_settings(sweep, row) for row in rows]
    clocked = [[*texts, *_clock(sweep, row)] for texts, row in zip(settings, rows, strict=True)]
    base = sweep.about["base"]["name"]
    text = sweep.about.get("base_toml")  # a folder that was begun by an earlier kit has none
    target = None if text is None else from_toml(text, f"{Path(sweep.name, IDENTITY)}: base_toml")
    roofs = [_roof(target, texts) for texts in settings]
    return columns | {
        "settings": [
            shlex.join([base, *(part for text in texts for part in ("--set", text))]) for texts in clocked
        ],
        "peak": [peak for peak, _ in roofs],
        "bus": [bus for _, bus in roofs],
    }


def _settings(sweep: Sweep, row: int) -> list[str]:
    """Return the parameters of a point as --set takes them."""
    values = ((name, sweep.points[name][row]) for name in sweep.about["parameters"])
    return [f"{name}={_setting(value)}" for name, value in values if value is not None]


def _clock(sweep: Sweep, row: int) -> Iterator[str]:
    """Yield the settings of a point's clock where it differs from the target's clock."""
    mhz, source = sweep.points["mhz"][row], sweep.points["clock_source"][row]
    if mhz is not None and source in SILICON_CLOCKS:
        yield from (f"{CLOCK}={mhz!r}", f"{CLOCK_SOURCE}={source}")


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _roof(base: Target | None, settings: Iterable[str]) -> tuple[int | None, float | None]:
    """Return MAC and bytes per cycle of a target; None where unknown, or if it cannot be built."""
    if base is None:
        return None, None
    try:
        target = apply_settings(base, settings)
    except VdlaError:
        return None, None
    return target.config.macs_per_cycle, target.bytes_per_cycle


def _model_of(about: Mapping[str, Any], workload: str) -> str | None:
    """Return what `vdla compile` takes for a workload; None for a layer that is given by its shape."""
    for table in about["specification"].get("workloads", []):
        model = table.get("model")
        if model is not None and workload == (table.get("name") or Path(model).stem):
            return shlex.join([model, *_recipe(table)])
    return None


def _recipe(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of a workload's quantisation and shapes."""
    for name in ("calibrate", "percentile"):
        if name in table:
            yield from (f"--{name}", str(table[name]))
    for name, shape in table.get("shapes", {}).items():
        yield from ("--shape", f"{name}={','.join(map(str, shape))}")


def _run_columns(points: Columns, workload: str, place: Mapping[int, int]) -> dict[str, list[Any]]:
    names = [*RUN, *(name for name in SOME if name in points)]
    columns: dict[str, list[Any]] = {name: [None] * len(place) for name in names}
    for row, (number, name) in enumerate(zip(points["point"], points["workload"], strict=True)):
        if name == workload:
            for key in names:
                columns[key][place[number]] = short(points[key][row])
    return columns


def _layer_columns(layers: Columns, workload: str, place: Mapping[int, int]) -> dict[str, Any]:
    """Return the layers of each point: `shapes` has what points share, the rest a list for each point."""
    rows_by_point: dict[int, list[int]] = defaultdict(list)
    for row, (number, name) in enumerate(zip(layers["point"], layers["workload"], strict=True)):
        if name == workload and number in place:
            rows_by_point[number].append(row)
    for rows in rows_by_point.values():
        rows.sort(key=lambda row: layers["layer"][row])
    shapes: dict[tuple[Any, ...], int] = {}
    which: list[int | None] = [None] * len(place)
    values: dict[str, list[Any]] = {name: [None] * len(place) for name in LAYER_VALUES}
    for number, rows in rows_by_point.items():
        shape = tuple(tuple(layers[name][row] for row in rows) for name in LAYER_SHAPE)
        which[place[number]] = shapes.setdefault(shape, len(shapes))
        for name in LAYER_VALUES:
            values[name][place[number]] = [short(layers[name][row]) for row in rows]
    return {
        "shapes": [dict(zip(LAYER_SHAPE, shape, strict=True)) for shape in shapes],
        "shape": which,
        **values,
    }


def write_sweep_report(folder: Path, output: Path | None = None) -> Path:
    """Write the page of a sweep.

    Args:
        folder: of the sweep; it holds `points.parquet`, `layers.parquet` and `sweep.json`.
        output: file to write; None: `report.html` in the folder.

    Returns:
        The file.

    Raises:
        FileFormatError, SweepError: a file of the sweep is missing or damaged.
        OutputError: the page cannot be written.
        ToolError: a package that writes pages is not installed.
    """
    sweep = read_sweep(folder)
    return write_page(
        output or folder / REPORT, f"Sweep {sweep.name}", "sweep.html", SCRIPTS, page_data(sweep)
    )

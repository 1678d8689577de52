"""Reading the results of a sweep."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.folder import LAYERS, POINTS
from vdla.explore.sweep.identity import read_identity
from vdla.hw.spec.showing import short

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a sweep in its folder.

    Attributes:
        folder: where they are.
    """

    folder: Path

    @property
    def identity(self) -> dict[str, Any]:
        """What `sweep.json` says; raises what `read_identity` raises."""
        return read_identity(self.folder)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the sweep's parameters."""
        return tuple(self.identity["parameters"])

    def points(self) -> "pa.Table":
        """Return a row for each point and workload; raises what `read_table` raises."""
        return read_table(self.folder / POINTS, ("point", "workload", "cycles", "status", *self.parameters))

    def layers(self) -> "pa.Table":
        """Return a row for each point, workload and layer; raises what `read_table` raises."""
        return read_table(self.folder / LAYERS, ("point", "workload", "layer", "cycles"))


def read_table(path: Path, columns: tuple[str, ...]) -> "pa.Table":
    """Return a table of a sweep.

    Args:
        columns: that it must have.

    Raises:
        SweepError: it does not exist, cannot be read, or lacks columns.
    """
    import pyarrow as pa
    from pyarrow import parquet

    cure = "run the sweep again, which makes its tables from its journal"
    if not path.exists():
        raise SweepError(f"{path} does not exist; {cure}")
    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SweepError(f"{path} is damaged: {' '.join(str(error).split())[:200]}; {cure}") from error
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise SweepError(f"{path} has no column {short(', '.join(missing))}; {cure}")
    return table

"""Runs inside the simulator: programs of NORMALISEs, and a model of the statistics that they leave."""

from collections import defaultdict
from dataclasses import replace

from vdla.hw.spec import isa, normalisation
from vdla.hw.spec.normalisation import RowStatistics
from vdla.hw.spec.vocabulary import MemoryType, Statistic

OUT = MemoryType.OUT


def gather(statistic: Statistic, **fields: int) -> isa.Normalise:
    """Return a NORMALISE that writes nothing."""
    sizes = {"y_size": 1, "x_size": 7, **fields}
    return isa.Normalise(memory_type=OUT, statistic=statistic, **sizes)


def write(statistic: Statistic, dram_base: int, **fields: int) -> isa.Normalise:
    """Return a NORMALISE that writes outputs."""
    sizes = {"y_size": 1, "x_size": 7, "normal": 5, **fields}
    return isa.Normalise(memory_type=OUT, statistic=statistic, dram_base=dram_base, **sizes)


GREATEST, POWERS, MOMENTS = Statistic
SOFTMAX = (
    gather(GREATEST, anew=1, sram_base=20),
    gather(GREATEST, sram_base=30, parameters=2, push_prev=1),
    gather(POWERS, anew=1, sram_base=20, table=3),
    gather(POWERS, sram_base=30, parameters=2, table=3),
    write(POWERS, 1100, sram_base=20, table=3),
    write(POWERS, 1110, sram_base=30, parameters=2, table=3, normal=7),
    write(GREATEST, 1120, sram_base=20, table=7),
    write(GREATEST, 1130, sram_base=40, normal=6),
)
LAYER_NORM = (
    gather(MOMENTS, anew=1, sram_base=50, table=1),
    gather(MOMENTS, sram_base=60, parameters=4),
    gather(MOMENTS, sram_base=70),
    *(write(MOMENTS, 1140 + 8 * number, sram_base=50, normal=number, push_prev=1) for number in range(1, 14)),
)
SINGLE = (
    *(
        gather(
            statistic, x_size=1 + number % 2, sram_base=80 + number, anew=number == 0, parameters=number // 8
        )
        for statistic in Statistic
        for number in range(16)
    ),
    *(
        write(
            statistic, 1300 + 50 * statistic + 2 * number, x_size=1, sram_base=80 + number, normal=1 + number
        )
        for statistic in Statistic
        for number in range(20)
    ),
)
MANY = (
    gather(GREATEST, anew=1, y_size=9, x_size=30),
    gather(GREATEST, y_size=1, x_size=5, sram_base=300),
    gather(POWERS, anew=1, y_size=9, x_size=30),
    write(POWERS, 1500, y_size=9, x_size=30, x_stride=31, sram_base=3),
)
STORED = isa.Store(memory_type=OUT, sram_base=90, dram_base=2000, y_size=1, x_size=2, push_prev=1)
NORMALISES = (
    *SOFTMAX,
    *LAYER_NORM,
    gather(GREATEST, x_size=0, push_prev=1),
    write(MOMENTS, 1290, y_size=0, push_prev=1),
    *(
        part
        for number, each in enumerate((*SOFTMAX[::-1], *LAYER_NORM[:5]))
        for part in (
            replace(STORED, dram_base=2000 + 2 * number, parameters=number % 3),
            replace(each, dram_base=each.dram_base + 1000),
        )
    ),
    *SINGLE,
    *MANY,
)


class Rows:
    """The statistics of rows."""

    def __init__(self) -> None:
        self._rows: dict[int, RowStatistics] = defaultdict(lambda: RowStatistics(greatest=0))

    def statistics(self, number: int) -> RowStatistics:
        """Return the statistics of the row of this number."""
        return self._rows[number % isa.NORMAL_ROWS]

    def gather(self, it: isa.Normalise, number: int, values: list[int], table: list[int] | None) -> None:
        """Gather the values of an element that are not left out."""
        row = number % isa.NORMAL_ROWS
        if it.anew:
            self._rows[row] = normalisation.begun_anew(it.statistic, self._rows[row])
        self._rows[row] = normalisation.gathered(it.statistic, self._rows[row], values, table)

    def normalised(
        self,
        it: isa.Normalise,
        number: int,
        values: list[int],
        table: list[int] | None,
        words: list[list[int]],
    ) -> list[int]:
        """Return the outputs of an element; `words` are the parameters."""
        columns = [
            normalisation.normal_operands(column, first=lambda word: word)._replace(
                **scalars_of([row[0] for row in words])
            )
            for column in zip(*words, strict=True)
        ]
        row = self.statistics(number)
        return [
            normalisation.normalised(it.statistic, row, value, table, normal)
            for value, normal in zip(values, columns, strict=True)
        ]


def scalars_of(words: list[int]) -> dict[str, int]:
    """Return the operands that column 0 gives."""
    operands = normalisation.normal_operands(words)
    return {name: getattr(operands, name) for name in ("count", "exponent", "reciprocal", "epsilon")}

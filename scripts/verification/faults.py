"""Faults to plant in the stream verifier: each makes it accept an unsafe stream, or refuse a safe stream."""

from dataclasses import dataclass

VERIFIER, TOUCH, FOLLOW = "sim/verify/verifier.py", "sim/verify/touch.py", "sim/verify/follow.py"
SHADOW, COLUMNS, OVERWRITES = "sim/verify/shadow.py", "sim/verify/columns.py", "sim/overwrites.py"
FOOTPRINT = "hw/spec/footprint.py"


@dataclass(frozen=True)
class Fault:
    """A changed line: `before` occurs once in the module."""

    module: str
    before: str
    after: str

    def planted(self, source: str) -> str:
        """Return the source of the module with the fault.

        Raises:
            ValueError: `before` does not occur exactly once.
        """
        if source.count(self.before) != 1:
            raise ValueError(
                f"{self.module} has {source.count(self.before)} times {self.before!r}; 1 is required"
            )
        return source.replace(self.before, self.after)

    def __str__(self) -> str:
        return f"{self.module}: {self.before.strip()} -> {self.after.strip()}"


FAULTS = (
    Fault(VERIFIER, "latest[consumer, unit[pusher]] = max(latest[consumer, unit[pusher]], pusher)", "pass"),
    Fault(
        VERIFIER,
        "latest[consumer, column] = max(latest[consumer, column], known[pusher, column])",
        "latest[consumer, column] = max(latest[consumer, column], pusher)",
    ),
    Fault(
        VERIFIER,
        "pushed_by[popping[:matched], number] = pushing[:matched]",
        "pushed_by[popping[:matched], number] = pushing[matched - 1]",
    ),
    Fault(VERIFIER, "    refuse_overwrites(program, stream_address)\n", ""),
    Fault(
        TOUCH,
        "            if access.writes:\n                last = max(last, shadow.read[place, other_unit])\n",
        "",
    ),
    Fault(TOUCH, "if last > watch.known[index, other_unit]:", "if last >= watch.known[index, other_unit]:"),
    Fault(
        TOUCH, "if last > watch.known[index, other_unit]:", "if last > watch.known[index, other_unit] + 1:"
    ),
    Fault(
        TOUCH,
        "if access.needs and not shadow.filled[place]:",
        "if access.needs and access.writes and not shadow.filled[place]:",
    ),
    Fault(TOUCH, "address + size > watch.dram_bytes", "address > watch.dram_bytes"),
    Fault(TOUCH, "return 2 * element // watch.shadow.depth[ACC]", "return 0"),
    Fault(
        TOUCH,
        "if memory == ACC and access.instruction == watch.worked[0]:",
        "if memory == ACC and access.writes and access.instruction == watch.worked[0]:",
    ),
    Fault(FOLLOW, "    for element in (chip.base, last):\n", "    for element in (chip.base,):\n"),
    Fault(
        FOLLOW,
        "begin = walk.base + i * walk.step_out\n        if walk.memory",
        "begin = walk.base + i * walk.trips_in\n        if walk.memory",
    ),
    Fault(FOLLOW, "row = i - chip.before_out", "row = i"),
    Fault(FOLLOW, "column = j - chip.before_in", "column = j"),
    Fault(
        COLUMNS,
        'items["beside"][chosen] = (fields("beside") != 0) & into_acc & ~pushes',
        'items["beside"][chosen] = (fields("beside") != 0) & into_acc & pushes',
    ),
    Fault(
        COLUMNS,
        "and np.all([fields(name) == 0 for name in access.fresh], axis=0)",
        "and np.any([fields(name) == 0 for name in access.fresh], axis=0)",
    ),
    Fault(FOLLOW, "watch.gathered[row] |= item.uses | item.gathers", "watch.gathered[row] |= item.uses"),
    Fault(FOLLOW, "for row in range(item.normal_rows):", "for row in range(item.normal_rows - 1):"),
    Fault(
        COLUMNS,
        'uses = np.where(writes | (fields("anew") == 0), own, 0)',
        "uses = np.where(writes, own, 0)",
    ),
    Fault(COLUMNS, "return uses | needs_greatest << Statistic.GREATEST", "return uses"),
    Fault(
        SHADOW,
        "bits = smallest | walk.base | walk.step_out | walk.trips_in * walk.step_in",
        "bits = smallest",
    ),
    Fault(
        OVERWRITES,
        "loads.chosen(loads.memory == MemoryType.UOP)",
        "loads.chosen(loads.memory == MemoryType.INP)",
    ),
    Fault(
        FOOTPRINT,
        '_begin_of("parameters", len(Parameter)), len(Parameter)',
        '_begin_of("parameters", len(Parameter)) + " + 1", len(Parameter)',
    ),
    Fault(
        FOOTPRINT,
        '_begin_of("normal", len(NormalParameter)), len(NormalParameter)',
        '_begin_of("parameters", len(NormalParameter)), len(NormalParameter)',
    ),
    Fault(FOOTPRINT, "isa.POWER_TABLE_ELEMENTS", "isa.TABLE_ELEMENTS"),
    Fault(FOOTPRINT, "{TAPS - 1}", "{TAPS}"),
    Fault(FOOTPRINT, "range(1, MOST_ROWS)", "range(1, MOST_ROWS - 1)"),
    Fault(FOOTPRINT, "more_rows - {row - 1}", "more_rows - {row}"),
    Fault(FOOTPRINT, "{2 * row} * row_step + {row}", "{2 * row} * row_step"),
    Fault(
        FOOTPRINT,
        'Access(inp, "dram_base", *_DRAM_ROWS, writes=True, where=where, of=inp)',
        'Access(inp, "dram_base", *_STORED_ROWS, writes=True, where=where, of=inp)',
    ),
    Fault(
        FOOTPRINT,
        'Access(inp, "dram_base", *_DRAM_ROWS, writes=True, where=where, of=inp)',
        'Access(inp, "dram_base", *_DRAM_ROWS, writes=True, where=where, of=out)',
    ),
    Fault(
        FOOTPRINT,
        'Access(\n                MemoryType.RES, "residual - 1", *_STORED_ROWS',
        'Access(\n                MemoryType.RES, "residual", *_STORED_ROWS',
    ),
)

"""From the values of a point to the schedule of its kernel."""

from collections.abc import Mapping

from vdla.compiler.codegen.derived.boxes import Relations, loop_of_sum
from vdla.compiler.codegen.derived.kernels import Kernel
from vdla.compiler.codegen.derived.knobs import WITHIN, Value
from vdla.compiler.codegen.nest import TILE_RANK
from vdla.compiler.te.schedule import Schedule, StageHandle, create_schedule
from vdla.compiler.te.tensor import Tensor

Values = Mapping[str, Value]
Levels = Mapping[str, int]  # loops over tiles around each stage, see `Table.levels`


def schedule_of(kernel: Kernel, relations: Relations, values: Values, levels: Levels) -> Schedule:
    """Return the schedule of a kernel.

    Args:
        values: of its knobs, by name.
        levels: where each stage is computed, by name.

    Raises:
        ScheduleError: a primitive cannot be applied.
    """
    schedule = create_schedule(kernel.output)
    loops = _tile(schedule, kernel, values)
    chunks: dict[str, str] = {}  # the innermost loop over chunks of each sum
    for stage in kernel.stages[-2::-1]:
        unit, handle = kernel.units[stage.name], schedule[stage]
        handle.set_scope(unit.scope)
        holder = _reader(stage, kernel, relations)
        level = levels[stage.name]
        if level > len(kernel.axes) + 1 and holder.name in chunks:
            handle.compute_at(holder, chunks[holder.name])
        elif level:
            handle.compute_at(kernel.output, loops[min(level, len(loops)) - 1])
        if kernel.sums(stage):
            chunks[stage.name] = _order_sums(handle, stage, kernel, values)
        if unit.loads:
            schedule.stage(stage).whole = TILE_RANK
    for stage in kernel.stages:
        schedule[stage].tensorize(schedule[stage].axis[-TILE_RANK], kernel.units[stage.name].instructions)
    return schedule


def _reader(stage: Tensor, kernel: Kernel, relations: Relations) -> Tensor:
    """Return the stage in whose chunks another may be computed."""
    over = relations.overwritten_by(stage)
    return kernel.readers(stage)[0] if over is None else _reader(over, kernel, relations)


def _tile(schedule: Schedule, kernel: Kernel, values: Values) -> list[str]:
    """Tile the loops of the output; return the loops over tiles, virtual threads last."""
    handle = schedule[kernel.output]
    names = [axis.name for axis in kernel.axes]
    several = [axis.name for axis in kernel.axes if axis.extent > 1]
    threads, over = values.get("threads", 1), values.get("over", several[0] if several else None)
    outer, inner, thread = {}, [], []
    for name, loop in zip(names, handle.axis, strict=False):
        outer[name], inside = handle.split(loop, int(values.get(f"tile {name}", 1)))
        inner.append(inside)
        if name == over and threads != 1:
            outer[name], own = handle.split(outer[name], int(threads))
            handle.vthread(own)
            thread.append(own)
    order = str(values.get("order", " ".join(names))).split(" ")
    loops = [*(outer[name] for name in order if name), *thread]
    handle.reorder(*loops, *inner, *handle.axis[-TILE_RANK:])
    return loops


def _order_sums(handle: StageHandle, stage: Tensor, kernel: Kernel, values: Values) -> str:
    """Order the loops of a sum, chunks outermost; return the innermost loop over chunks."""
    names = [axis.name for axis in stage.reduce_axes]
    own = dict(zip(names, handle.reduce_axis, strict=True))
    chunks, inside = [], []
    for axis in kernel.sums(stage):
        name = loop_of_sum(stage, axis.name)
        outer, inner = handle.split(own.pop(axis.name), int(values.get(f"chunk {name}", 1)))
        chunks.append(outer)
        inside.append(inner)
    across, tile = handle.axis[:-TILE_RANK], handle.axis[-TILE_RANK:]
    within = values.get(f"walk {stage.name}", WITHIN) == WITHIN
    order = [*across, *inside] if within else [*inside, *across]
    handle.reorder(*chunks, *order, *tile, *own.values())
    return chunks[-1]

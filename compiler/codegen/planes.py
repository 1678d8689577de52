"""Programs over planes of channels: products with a factor for each channel, and means of whole planes.

A factor that is known only when the network runs stands in weights: the diagonal of a block of weights holds
the factors of its channels. `diagonal_program` spreads factors so. Inputs come through the load unit, beside
the work on others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vdla.compiler.codegen.intrinsics import accelerator
from vdla.compiler.codegen.tasks import DiagonalTask, FactorsTask, MeanTask, RepeatTask, ScalingTask
from vdla.compiler.codegen.texts import function, joined, nest
from vdla.compiler.ir.nodes import Func
from vdla.compiler.ir.parse import parse_func
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Parameter

SETS = len(Parameter)
GREATEST = 127  # of a weight or an input


def parts_of(number: int) -> tuple[int, ...]:
    """Return numbers of int8 whose sum is one of -127 to 128; none for 0."""
    if number > GREATEST:
        return number // 2, number - number // 2
    return (number,) if number else ()


def units(numbers: tuple[int, ...], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, block_out, block_in]: weights that multiply by each number."""
    return np.stack([np.eye(config.block_out, dtype=np.int8) * np.int8(number) for number in numbers])


def single_units(config: AcceleratorConfig) -> np.ndarray:
    """Return int8[block_out, block_out, block_in]: weights of which the r-th keep channel r alone."""
    rows = np.arange(config.block_out)
    weights = np.zeros((config.block_out,) * 3, np.int8)
    weights[rows, rows, rows] = 1
    return weights


def filled(numbers: tuple[int, ...], config: AcceleratorConfig) -> np.ndarray:
    """Return int8[n, batch, block_in]: inputs that hold each number."""
    column = np.array(numbers, np.int8).reshape(-1, 1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (len(numbers), config.batch, config.block_in)))


@dataclass(frozen=True, slots=True)
class PlaneTile:
    """A tile: some blocks of channels with all their elements, or some elements of one block; the numbers of
    both divide the whole."""

    blocks: int
    elements: int

    def trips(self, blocks: int, elements: int) -> tuple[int, int]:
        """Return the tiles along blocks, and along elements."""
        return blocks // self.blocks, elements // self.elements

    def loops(self, blocks: int, elements: int, threads: int) -> tuple[dict[str, int], str, str]:
        """Return the loops over tiles, of which the one that the threads share is split, and the first block
        and the first element of a tile."""
        block_trips, element_trips = self.trips(blocks, elements)
        shared = f"(outer * {threads} + thread)"
        if self.elements == elements:
            return {"outer": block_trips // threads, "thread": threads}, f"{shared} * {self.blocks}", "0"
        loops = {"plane": block_trips, "outer": element_trips // threads, "thread": threads}
        return loops, "plane", f"{shared} * {self.elements}"


def plane_tile(blocks: int, elements: int, room: int, threads: int) -> PlaneTile | None:
    """Return the largest tile that fits `room` elements `threads` times and whose loop `threads` can share;
    None where there is none."""
    whole = [PlaneTile(count, elements) for count in _divisors(blocks) if blocks // count % threads == 0]
    cut = [PlaneTile(1, count) for count in _divisors(elements) if elements // count % threads == 0]
    fits = [tile for tile in (*whole, *cut) if tile.blocks * tile.elements * threads <= room]
    return max(fits, key=lambda tile: (tile.elements, tile.blocks), default=None)


def factors_tile(task: FactorsTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of a product with factors; None where none fits."""
    room = min(config.depth(MemoryType.INP) - task.constants, config.depth(MemoryType.ACC) - SETS)
    tile = plane_tile(task.blocks, task.elements, room, threads)
    weights = config.depth(MemoryType.WGT) - task.units
    return tile if tile is not None and tile.blocks * threads <= weights else None


def factors_program(task: FactorsTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program of a requantised product of int8[blocks, elements, batch, block] with the
    factors of its channels, without their zero points.

    Its parameters are P, the operand A, the factors D as diagonals of weights, the result Z; weights K that
    multiply by the negative zero point of the factors, and inputs C of the negative zero point of A, where
    those are not 0.
    """
    tile = factors_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    b, o = config.batch, config.block_out
    params = {
        "P": f"int{config.acc_bits}[1, {SETS}, {b}, {o}]",
        "A": f"int8[{task.blocks}, {task.elements}, {b}, {o}]",
        "D": f"int8[{task.blocks}, {o}, {o}]",
        "Z": f"int8[{task.blocks}, {task.elements}, {b}, {o}]",
        **({"K": f"int8[{task.units}, {o}, {o}]"} if task.units else {}),
        **({"C": f"int8[{task.constants}, {b}, {o}]"} if task.constants else {}),
    }

    def statements() -> Iterator[str]:
        """Yield the program, statement by statement."""
        yield f'PL = alloc({params["P"]}, "parameters")'
        yield nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])")
        if task.units:
            yield f'KL = alloc({params["K"]}, "weight")'
            yield nest({"k": task.units}, "load_wgt(KL[k, 0, 0], K[k, 0, 0])")
        if task.constants:
            yield f'CL = alloc({params["C"]}, "input")'
            yield nest({"k": task.constants}, "load_inp(CL[k, 0, 0], C[k, 0, 0])")
        loops, block, element = tile.loops(task.blocks, task.elements, threads)
        body = joined(_factors_tile(task, tile, config, block, element))
        yield nest(loops, body, threads="thread")

    return parse_func(function(params, statements()), accelerator(config).every)


def _factors_tile(
    task: FactorsTask, tile: PlaneTile, config: AcceleratorConfig, block: str, element: str
) -> Iterator[str]:
    """Yield the statements of one tile, the first block and element of which are given."""
    plane, o = f"[{tile.blocks}, {tile.elements}, {config.batch}, {config.block_out}]", config.block_out
    loops = {"c": tile.blocks, "e": tile.elements}
    yield f'DL = alloc(int8[{tile.blocks}, {o}, {o}], "weight")'
    yield nest({"c": tile.blocks}, f"load_wgt(DL[c, 0, 0], D[{block} + c, 0, 0])")
    yield f'AL = alloc(int8{plane}, "input")'
    yield nest(loops, f"load_inp(AL[c, e, 0, 0], A[{block} + c, {element} + e, 0, 0])")
    yield f'S = alloc(int{config.acc_bits}{plane}, "accumulator")'
    sums = "S[c, e, 0, 0]"
    yield nest(loops, f"reset({sums})")
    yield nest(loops, f"gemm({sums}, AL[c, e, 0, 0], DL[c, 0, 0])")
    for number in range(task.units):
        yield nest(loops, f"gemm({sums}, AL[c, e, 0, 0], KL[{number}, 0, 0])")
    for number in range(task.constants):
        yield nest(loops, f"gemm({sums}, CL[{number}, 0, 0], DL[c, 0, 0])")
    yield nest(loops, f"store_scaled(Z[{block} + c, {element} + e, 0, 0], {sums}, PL[0, 0, 0, 0])")


def scaling_tile(task: ScalingTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of a product with factors by the ALU; None where none fits beside its factors."""
    room = (config.depth(MemoryType.ACC) - SETS) // task.parts
    beside = room * task.elements // (task.elements + 1) - threads
    return plane_tile(task.blocks, task.elements, beside, threads)


def scaling_program(task: ScalingTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program of a requantised product of int8[blocks, elements, parts, batch, block] with
    the factors of its channels, int8[blocks, parts, batch, block], both without their zero points.

    Its parameters are P, the operand A, the factors F and the result Z.
    """
    tile = scaling_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    acc, element = f"int{config.acc_bits}", f"{config.batch}, {config.block_out}"
    params = {
        "P": f"{acc}[1, {SETS}, {element}]",
        "A": f"int8[{task.blocks}, {task.elements}, {task.parts}, {element}]",
        "F": f"int8[{task.blocks}, {task.parts}, {element}]",
        "Z": f"int8[{task.blocks}, {task.elements}, {task.parts}, {element}]",
    }
    loops, block, first = tile.loops(task.blocks, task.elements, threads)
    each = {"c": tile.blocks, "e": tile.elements, "p": task.parts}
    factors, values, place = "FL[c, p, 0, 0]", "S[c, e, p, 0, 0]", f"[{block} + c, {first} + e, p, 0, 0]"
    of_channels = {"c": tile.blocks, "p": task.parts}
    body = (
        f'FL = alloc({acc}[{tile.blocks}, {task.parts}, {element}], "accumulator")',
        nest(of_channels, f"load_acc8({factors}, F[{block} + c, p, 0, 0])"),
        nest(of_channels, f"add_imm({factors}, {factors}, {acc}({-task.zeros[1]}))"),
        f'S = alloc({acc}[{tile.blocks}, {tile.elements}, {task.parts}, {element}], "accumulator")',
        nest(each, f"load_acc8({values}, A{place})"),
        nest(each, f"add_imm({values}, {values}, {acc}({-task.zeros[0]}))"),
        nest(each, f"mul({values}, {values}, {factors})"),
        nest(each, f"store_scaled(Z{place}, {values}, PL[0, 0, 0, 0])"),
    )
    statements = (
        f'PL = alloc({params["P"]}, "parameters")',
        nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])"),
        nest(loops, joined(body), threads="thread"),
    )
    return parse_func(function(params, statements), accelerator(config).every)


def diagonal_tile(task: DiagonalTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of factors that are spread; None where none fits."""
    o = config.block_out
    if config.depth(MemoryType.WGT) < o or config.depth(MemoryType.INP) < o:
        return None
    tile = plane_tile(task.blocks, o, config.depth(MemoryType.ACC), threads)
    return tile if tile is not None and tile.elements == o else None


def diagonal_program(task: DiagonalTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program that makes int8[blocks, block, block] of factors int8[blocks, 1, block]: the
    diagonal of each block holds the factors of its channels, and 0 stands beside.

    Its parameters are the factors F, the weights U of `single_units`, and the result D.
    """
    tile = diagonal_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    o, count = config.block_out, tile.blocks
    params = {
        "F": f"int8[{task.blocks}, 1, {o}]",
        "U": f"int8[{o}, {o}, {o}]",
        "D": f"int8[{task.blocks}, {o}, 1, {o}]",
    }
    loops, block, _ = tile.loops(task.blocks, o, threads)
    each = {"c": count, "r": o}
    body = (
        f'FL = alloc(int8[{count}, 1, {o}], "input")',
        nest({"c": count}, f"load_inp(FL[c, 0, 0], F[{block} + c, 0, 0])"),
        f'S = alloc(int{config.acc_bits}[{count}, {o}, 1, {o}], "accumulator")',
        nest(each, "reset(S[c, r, 0, 0])"),
        nest(each, "gemm(S[c, r, 0, 0], FL[c, 0, 0], UL[r, 0, 0])"),
        nest(each, f"store(D[{block} + c, r, 0, 0], S[c, r, 0, 0])"),
    )
    statements = (
        f'UL = alloc({params["U"]}, "weight")',
        nest({"r": o}, "load_wgt(UL[r, 0, 0], U[r, 0, 0])"),
        nest(loops, joined(body), threads="thread"),
    )
    return parse_func(function(params, statements), accelerator(config).every)


def mean_tile(task: MeanTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of means; None where none fits, or the sums of all blocks do not."""
    if task.blocks + SETS > config.depth(MemoryType.ACC):
        return None
    return plane_tile(task.blocks, task.elements, config.depth(MemoryType.INP), threads)


def mean_program(task: MeanTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program of the requantised sum of each channel of int8[blocks, elements, batch, block].

    Its parameters are P, the same for all channels, the operand X, the weights W that multiply by 1, and the
    result Z.
    """
    tile = mean_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    b, o = config.batch, config.block_out
    params = {
        "P": f"int{config.acc_bits}[1, {SETS}, {b}, {o}]",
        "X": f"int8[{task.blocks}, {task.elements}, {b}, {o}]",
        "W": f"int8[1, {o}, {o}]",
        "Z": f"int8[{task.blocks}, {b}, {o}]",
    }
    loops, block, element = tile.loops(task.blocks, task.elements, threads)
    each = {"c": tile.blocks, "e": tile.elements}
    body = (
        f'XL = alloc(int8[{tile.blocks}, {tile.elements}, {b}, {o}], "input")',
        nest(each, f"load_inp(XL[c, e, 0, 0], X[{block} + c, {element} + e, 0, 0])"),
        nest(each, f"gemm(S[{block} + c, 0, 0], XL[c, e, 0, 0], WL[0, 0, 0])"),
    )
    statements = (
        f'PL = alloc({params["P"]}, "parameters")',
        nest({"p": SETS}, "load_parameters(PL[0, p, 0, 0], P[0, p, 0, 0])"),
        f'WL = alloc({params["W"]}, "weight")',
        nest({"w": 1}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])"),
        f'S = alloc(int{config.acc_bits}[{task.blocks}, {b}, {o}], "accumulator")',
        nest({"s": task.blocks}, "reset(S[s, 0, 0])"),
        nest(loops, joined(body), threads="thread"),
        nest({"s": task.blocks}, "store_scaled(Z[s, 0, 0], S[s, 0, 0], PL[0, 0, 0, 0])"),
    )
    return parse_func(function(params, statements), accelerator(config).every)


def repeat_tile(task: RepeatTask, config: AcceleratorConfig, threads: int) -> PlaneTile | None:
    """Return the tile of a repeated image, in blocks and rows; None where no row fits."""
    if config.block_in != config.block_out:
        room = config.depth(MemoryType.ACC) // (task.width * task.parts)
        return plane_tile(task.blocks, task.height, room, threads)
    room = min(
        config.depth(MemoryType.INP) // task.width,
        config.depth(MemoryType.ACC) // (task.width * task.factors[1]),
    )
    return plane_tile(task.blocks, task.height, room, threads)


def repeat_program(task: RepeatTask, config: AcceleratorConfig, *, threads: int, parts: int) -> Func:
    """Return the loop program that repeats the pixels of int8[blocks, height, width, parts, batch, block]:
    across in accumulators, down by storing rows several times.

    Its parameters are the image X, the weights W that multiply by 1, and the result Z. Where inputs have
    another block than outputs it loads accumulators, stores across, too, and has no weights.
    """
    tile = repeat_tile(task, config, threads * parts)
    assert tile is not None, "the choice is in the task's space"
    (down, across), (b, o) = task.factors, (config.batch, config.block_out)
    multiplies = config.block_in == config.block_out
    weights = {"W": f"int8[1, {o}, {o}]"} if multiplies else {}
    params = {
        "X": f"int8[{task.blocks}, {task.height}, {task.width}, {task.parts}, {b}, {o}]",
        **weights,
        "Z": f"int8[{task.blocks}, {task.height}, {down}, {task.width}, {across}, {task.parts}, {b}, {o}]",
    }
    loops, block, row = tile.loops(task.blocks, task.height, threads)
    body = (_repeated_products if multiplies else _repeated_elements)(task, tile, config, block, row)
    kept = [nest({"w": 1}, "load_wgt(WL[w, 0, 0], W[w, 0, 0])")] if multiplies else []
    statements = (
        *(f'WL = alloc({shape}, "weight")' for shape in weights.values()),
        *kept,
        nest(loops, joined(body), threads="thread"),
    )
    return parse_func(function(params, statements), accelerator(config).every)


def _repeated_products(
    task: RepeatTask, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str
) -> Iterator[str]:
    """Yield the statements of one tile: products by 1, once for each copy across."""
    across, element = task.factors[1], f"{config.batch}, {config.block_out}"
    each = {"c": tile.blocks, "y": tile.elements, "x": task.width}
    place, copies = ", ".join(map(str, each.values())), {**each, "d": across}
    yield f'XL = alloc(int8[{place}, {element}], "input")'
    yield nest(each, f"load_inp(XL[c, y, x, 0, 0], X[{block} + c, {row} + y, x, 0, 0, 0])")
    yield f'S = alloc(int{config.acc_bits}[{place}, {across}, {element}], "accumulator")'
    yield nest(copies, "reset(S[c, y, x, d, 0, 0])")
    yield nest(copies, "gemm(S[c, y, x, d, 0, 0], XL[c, y, x, 0, 0], WL[0, 0, 0])")
    for copy in range(task.factors[0]):
        yield nest(copies, f"store(Z[{block} + c, {row} + y, {copy}, x, d, 0, 0, 0], S[c, y, x, d, 0, 0])")


def _repeated_elements(
    task: RepeatTask, tile: PlaneTile, config: AcceleratorConfig, block: str, row: str
) -> Iterator[str]:
    """Yield the statements of one tile: elements as accumulators, stored once for each copy."""
    each = {"c": tile.blocks, "y": tile.elements, "x": task.width, "p": task.parts}
    place, sums = ", ".join(map(str, each.values())), "S[c, y, x, p, 0, 0]"
    yield f'S = alloc(int{config.acc_bits}[{place}, {config.batch}, {config.block_out}], "accumulator")'
    yield nest(each, f"load_acc8({sums}, X[{block} + c, {row} + y, x, p, 0, 0])")
    for down in range(task.factors[0]):
        for copy in range(task.factors[1]):
            yield nest(each, f"store(Z[{block} + c, {row} + y, {down}, x, {copy}, p, 0, 0], {sums})")


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]

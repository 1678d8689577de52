#!/usr/bin/env python3
"""Break valid streams and check that the verifier refuses all that are unsafe.

Streams are random programs and compiled operators. Each token flag is removed by itself: if some legal
interleaving of the units then hangs or leaves other data, the verifier must refuse the stream. Addresses are
moved out of their memories: the verifier must refuse the stream. Addresses and sizes are changed at random:
if the final DRAM then depends on the interleaving, or on the scratchpads before the run, the verifier must
refuse the stream. Unbroken streams must pass. Exit status 1 if one of these checks fails.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click
import numpy as np
from generators.operators import random_case
from generators.programs import random_config, random_program
from random_operators import CONFIGS

from vdla.compiler.codegen.stream import compile_stream
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import EncodingError, ProgramError
from vdla.hw.spec.touched import fields_of
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import UOP_TENSOR
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.functional import Machine
from vdla.sim.verify.verifier import findings


@dataclass(frozen=True)
class Subject:
    """A stream with the DRAM it starts from; `filled`: it may read scratchpads that it has not written."""

    config: AcceleratorConfig
    instructions: tuple[isa.Instruction, ...]
    image: np.ndarray
    filled: bool

    def program(self) -> DecodedStream:
        """Return the stream, decoded."""
        words = codec.to_bytes(self.instructions, self.config)
        return decode_stream(
            np.frombuffer(words, np.uint8).reshape(-1, self.config.instruction_bytes), self.config
        )

    def changed(self, index: int, **fields: int) -> "Subject":
        """Return the stream with other fields in an instruction."""
        items = list(self.instructions)
        items[index] = replace(items[index], **fields)
        return replace(self, instructions=tuple(items))


def random_subject(seed: int) -> Subject:
    """Return a random program."""
    program = random_program(random_config(seed), seed, 30)
    return Subject(program.config, program.instructions, program.image, filled=True)


def compiled_subject(seed: int) -> Subject:
    """Return the stream of a random operator on random data."""
    case = random_case(seed, CONFIGS)
    stream = compile_stream(case.func, case.config)
    sizes = {name: values.nbytes for name, values in case.given.items()} | {
        "Z": case.func.params[-1].size,
        UOP_TENSOR: stream.uops.nbytes,
    }
    image, addresses, place = np.random.default_rng(seed).integers(0, 256, 1 << 20, np.uint8), {}, 4096
    for name, size in sizes.items():
        addresses[name], place = place, place + -(-size // 4096) * 4096
    image[addresses[UOP_TENSOR] : addresses[UOP_TENSOR] + stream.uops.nbytes] = stream.uops.view(np.uint8)
    words = stream.relocated(addresses)
    items = tuple(codec.decode(int.from_bytes(word.tobytes(), "little"), case.config) for word in words)
    return Subject(case.config, items, image, filled=False)


def refused(subject: Subject) -> bool:
    """Whether the verifier refuses a stream."""
    try:
        return bool(findings(subject.program(), subject.image, filled=subject.filled))
    except ProgramError:
        return True


def result(subject: Subject, seed: int | None, noise: int | None = None) -> bytes:
    """Return what a stream leaves in DRAM in one legal interleaving; nothing where it hangs or reaches too
    far.

    Args:
        noise: seed of what the scratchpads hold before; without it zeros.
    """
    image, machine = subject.image.copy(), Machine(subject.config)
    if noise is not None:
        rng = np.random.default_rng(noise)
        pads = machine.pads
        for array in (pads.inp, pads.wgt, pads.acc, pads.greatest, pads.powers, pads.totals, pads.squares):
            array[:] = rng.integers(-100, 100, array.shape).astype(array.dtype)
        machine.pads.refresh_operands()
    try:
        machine.run(subject.program(), image, seed=seed)
    except ProgramError:
        return b""
    return image.tobytes()


def shows(subject: Subject, expected: bytes, orders: int) -> bool:
    """Whether some interleaving hangs or gives another result."""
    return any(result(subject, seed) != expected for seed in (None, *range(orders)))


def without_flags(subject: Subject) -> Iterator[Subject]:
    """Yield the stream without each of its token flags."""
    for index, item in enumerate(subject.instructions):
        for flag in isa.FLAGS:
            if getattr(item, flag):
                yield subject.changed(index, **{flag: 0})


def moved(subject: Subject, rng: random.Random) -> Iterator[Subject]:
    """Yield the stream with a transfer that reaches past the end of its memory, or of DRAM."""
    for index, item in enumerate(subject.instructions):
        moves = isinstance(item, (isa.Load, *FROM_ACC)) and item.x_size and item.y_size
        if moves and rng.random() < 0.3:
            memory = MemoryType.ACC if isinstance(item, FROM_ACC) else item.memory_type
            yield subject.changed(index, sram_base=min(subject.config.depth(memory), 65535))
            size = subject.config.element_bytes(item.memory_type, fields_of(item)("halvings"))
            end = len(subject.image) // size
            if isinstance(item, FROM_ACC) and item.memory_type == MemoryType.INP:
                end = subject.config.depth(MemoryType.INP)
            if isinstance(item, isa.Normalise) and not item.normal:
                continue  # it writes nothing
            yield subject.changed(index, dram_base=end)


FROM_ACC = isa.Store, isa.Normalise
CHANGED = {
    isa.Load: ("sram_base", "y_size", "x_size", "x_pad_0", "y_pad_1"),
    isa.Store: ("sram_base", "dram_base", "y_size", "x_size", "parameters"),
    isa.Normalise: (
        *("sram_base", "dram_base", "y_size", "x_size", "parameters", "table", "normal", "statistic", "anew"),
    ),
    isa.Gemm: ("dst_factor_out", "src_factor_in", "wgt_factor_in", "iter_in", "overwrite"),
    isa.Alu: ("dst_factor_in", "src_factor_out", "iter_out"),
    isa.Gather: ("sram_base", "dram_base", "y_size", "x_size", "x_stride", "step", "y_pad_1"),
    isa.Depthwise: (
        *("dst_factor_in", "src_factor_in", "wgt_factor_out", "iter_in", "stride_2", "overwrite"),
        *("more_rows", "wide", "row_step"),
    ),
}


def displaced(subject: Subject, rng: random.Random, count: int) -> Iterator[Subject]:
    """Yield streams with one address, size or step changed by a little."""
    places = [index for index, item in enumerate(subject.instructions) if type(item) in CHANGED]
    for _ in range(count if places else 0):
        index = rng.choice(places)
        item = subject.instructions[index]
        name = rng.choice(CHANGED[type(item)])
        candidate = subject.changed(
            index, **{name: max(0, getattr(item, name) + rng.choice((-3, -2, -1, 1, 2, 3, 17)))}
        )
        try:
            candidate.program()
        except (EncodingError, ProgramError):
            continue  # no such instruction can be written down
        yield candidate


def undefined(subject: Subject, orders: int) -> bool:
    """Whether what a stream leaves in DRAM depends on the interleaving, or on what stood in the
    scratchpads."""
    first = result(subject, None)
    others = (result(subject, seed) for seed in range(orders))
    noisy = () if subject.filled else (result(subject, None, noise) for noise in range(2))
    return not first or any(contents != first for contents in (*noisy, *others))


def campaign(subject: Subject, rng: random.Random, orders: int, flags: int, changes: int) -> Counter:
    """Break a stream in every way; count what came of it."""
    counts, expected = Counter(streams=1), result(subject, None)
    counts["unbroken streams refused"] += refused(subject)
    broken = list(without_flags(subject))
    for variant in rng.sample(broken, min(flags, len(broken))):
        says, matters = refused(variant), shows(variant, expected, orders)
        counts["flags removed"] += 1
        counts["removals that showed"] += matters
        counts["removals that showed and passed"] += matters and not says
        counts["removals refused"] += says
    for variant in moved(subject, rng):
        counts["addresses moved out"] += 1
        try:
            counts["addresses moved out and passed"] += not refused(variant)
        except EncodingError:
            counts["addresses moved out"] -= 1
    for variant in displaced(subject, rng, changes):
        says, matters = refused(variant), undefined(variant, orders)
        counts["addresses and sizes changed"] += 1
        counts["changes that left the result undefined"] += matters
        counts["changes that left the result undefined and passed"] += matters and not says
        counts["changes refused"] += says
    return counts


@click.command(help=__doc__)
@click.option("--streams", default=50, show_default=True)
@click.option("--orders", default=20, show_default=True, help="Random interleavings of each broken stream.")
@click.option("--flags", default=40, show_default=True, help="Token flags taken from each stream, at most.")
@click.option("--changes", default=40, show_default=True, help="Addresses and sizes changed in each stream.")
def main(streams: int, orders: int, flags: int, changes: int) -> None:
    rng, counts = random.Random(0), Counter()
    for number in range(streams):
        subject = random_subject(number) if number % 2 else compiled_subject(number)
        counts += Counter({**campaign(subject, rng, orders, flags, changes)})
    for name, count in counts.items():
        click.echo(f"{count:6} {name}")
    bad = sum(
        counts[name]
        for name in (
            "unbroken streams refused",
            "removals that showed and passed",
            "addresses moved out and passed",
            "changes that left the result undefined and passed",
        )
    )
    click.echo("every stream that had to be refused was, and no other" if not bad else f"{bad} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

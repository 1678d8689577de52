"""Recorded runs with their DRAM, and what their instructions touch by the declaration of footprints."""

from collections.abc import Iterator
from functools import cache

import numpy as np
from generators.programs import random_config, random_program

from tests.explore.debug.programs import VECTORS
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.dram import Area, Image
from vdla.explore.debug.launches import vector_recording
from vdla.explore.debug.recording import Recording
from vdla.hw.spec.memories import scratchpad_of
from vdla.hw.spec.touched import accesses, elements, fields_of, named
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.vectors import load_vector
from vdla.sim.access import uop_column
from vdla.sim.decoded import decode_stream
from vdla.sim.reference import execute
from vdla.sim.scratchpads import Scratchpads
from vdla.sim.timing.simulate import simulate
from vdla.sim.verify.columns import DRAM

RANDOM = range(12)
NAMES = ("conv3x3_d", "gemm_vt2_d", "padinp_a_d", "alu_vec3_b8", *map(str, RANDOM))
Places = dict[tuple[int, bool], set[int]]
"""By memory and whether they are written: the places that an instruction reads or writes."""


@cache
def contents(name: str) -> Contents:
    """Return the memories of a vector's run, or of a random program's."""
    if not name.isdigit():
        return Contents(vector_recording(load_vector(VECTORS / f"{name}.npz")))
    program = random_program(random_config(int(name)), int(name), 60)
    rows = np.frombuffer(program.stream, np.uint8).reshape(-1, program.config.instruction_bytes)
    timing = simulate(decode_stream(rows, program.config), log=True)
    image = Image(program.image, (Area("image", 0, len(program.image)),))
    return Contents(Recording(name, timing, image=image))


@cache
def reference(name: str) -> tuple[Places, ...]:
    """Return what each instruction touches, by its footprint and the micro-ops of the executed program."""
    recording = contents(name).recording
    program, instruction_places = recording.program, []
    dram = np.concatenate([recording.image.before, np.zeros(1 << 20, np.uint8)])
    pads = Scratchpads(program.config)
    for index in range(program.dispatched):
        instruction_places.append(_places(program.instruction(index), pads))
        execute(program.instruction(index), pads, dram)
    return tuple(instruction_places)


def _places(instruction, pads: Scratchpads) -> Places:
    fields, touched, uops = fields_of(instruction), {}, pads.uop[:0]
    for access in accesses(instruction):
        memory, config = MemoryType(named(access, fields)), pads.config
        bases = uop_column(uops, access.uop_field, config).tolist() if access.uop_field else (0,)
        places = set(elements(access, fields, bases))
        if access.reads and memory is MemoryType.UOP and not access.in_dram:
            uops = pads.uop[min(places) : max(places) + 1]
        where = scratchpad_of(memory)
        if access.in_dram:
            size, where = config.element_bytes(memory, fields("halvings")), DRAM
            places = set(_bytes(places, size, access.in_bytes, fields("step") if access.in_bytes else 0))
        reads = access.reads and not any(fields(name) for name in access.fresh)
        for happens, writes in ((reads, False), (access.writes, True)):
            if happens:
                touched.setdefault((where, writes), set()).update(places)
    return touched


def _bytes(element_numbers: set[int], size: int, in_bytes: bool, step: int) -> Iterator[int]:
    """Yield the bytes of elements in DRAM; for a GATHER, also the bytes between the elements of a row."""
    for element in element_numbers:
        first = element if in_bytes else element * size
        yield from range(
            first, first + max(size, step if in_bytes and element + step in element_numbers else 0)
        )

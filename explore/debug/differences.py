"""Comparison of a run with the results that it must have: which STOREs wrote wrong bytes, and whence."""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.dram import Difference
from vdla.explore.debug.execution import executed_up_to, with_slack
from vdla.explore.debug.flow import Writers
from vdla.explore.debug.recording import NONE
from vdla.hw.spec import isa
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import Device
from vdla.runtime.module.plan import Crossing, LaunchStep, Plan
from vdla.runtime.session.session import Ran, Session
from vdla.runtime.vectors import Vector, stream_address
from vdla.sim.functional import Machine
from vdla.sim.records import BoolArray, ByteArray, IntArray
from vdla.sim.scratchpads import Scratchpads
from vdla.sim.timing.result import NEVER
from vdla.sim.verify.columns import DRAM

MOST_STORES = 100
"""STOREs with wrong bytes that a comparison reports."""
MOST_SUSPECTS = 8
"""LOADs that a comparison suspects for a STORE."""
MOST_RIGHT = 200
"""STOREs with right bytes that suspects are compared with."""


def differences_of(
    contents: Contents,
    address: int,
    actual: ByteArray,
    expected: ByteArray,
    stores: IntArray | None = None,
) -> tuple[Difference, ...]:
    """Return the differing bytes of a range of DRAM by the STORE that wrote them, the earliest first.

    Args:
        address: of the first byte.
        actual, expected: uint8[n], the bytes after the run.
        stores: the instructions that may have written them; None: any.
    """
    wrong = np.flatnonzero(actual != expected)
    if not len(wrong):
        return ()
    writers = _writers(contents, address, len(actual), stores)
    right = np.setdiff1d(np.unique(writers), np.append(np.unique(writers[wrong]), NONE))
    differing = np.unique(writers[wrong]).tolist()
    suspects = _suspects(contents, [store for store in differing if store != NONE], right)
    rows = [
        _difference(store, address, wrong[writers[wrong] == store], actual, expected, suspects.get(store, ()))
        for store in differing
    ]
    started = contents.recording.timing.started
    return tuple(sorted(rows, key=lambda row: (row.store == NONE, int(started[row.store]))))[:MOST_STORES]


def _writers(contents: Contents, address: int, size: int, stores: IntArray | None) -> IntArray:
    """Return int32[size]: the STORE that wrote each byte last; NONE where none did."""
    touches, started = contents.touches, contents.recording.timing.started
    writes = (touches.memory == DRAM) & touches.writes & (started[touches.instruction] != NEVER)
    writes &= (touches.begin < address + size) & (touches.end > address)
    if stores is not None:
        writes &= np.isin(touches.instruction, stores)
    numbers = np.flatnonzero(writes)
    table = Writers(address, np.full(size, NONE, np.int32))
    for number in numbers[np.argsort(started[touches.instruction[numbers]], kind="stable")].tolist():
        table.write(touches.places(number), int(touches.instruction[number]))
    return table.last


def _difference(
    store: int,
    address: int,
    places: IntArray,
    actual: ByteArray,
    expected: ByteArray,
    suspects: tuple[int, ...],
) -> Difference:
    first = int(places[0])
    pairs = np.unique(np.stack([actual[places], expected[places]]), axis=1).shape[1]
    values = int(actual[first]), int(expected[first])
    return Difference(store, address + first, len(places), *values, pairs, suspects)


def _suspects(contents: Contents, wrong: Sequence[int], right: IntArray) -> Mapping[int, tuple[int, ...]]:
    """Return, by STORE of wrong bytes, the LOADs on which it depends and no STORE of right bytes does.

    Returns:
        Nothing if no STORE wrote right bytes.
    """
    if not len(right):
        return {}
    flow, loads = contents.flow, _loads(contents)
    cleared: set[int] = set()
    for store in right[:MOST_RIGHT].tolist():
        cleared |= flow.origins(store)
    candidates = {store: flow.origins(store) & loads.keys() - cleared for store in wrong[:MOST_STORES]}
    return {
        store: tuple(sorted(origins, key=loads.__getitem__)[:MOST_SUSPECTS])
        for store, origins in candidates.items()
    }


def _loads(contents: Contents) -> Mapping[int, int]:
    """Return each LOAD and GATHER with its place in a list, in which LOADs of micro-ops stand last."""
    touches, program = contents.touches, contents.recording.program
    loads = np.flatnonzero(np.isin(program.opcode, [isa.Load.opcode, isa.Gather.opcode]))
    micro_ops = touches.instruction[touches.writes & (touches.memory == MemoryType.UOP)]
    places = loads + len(program) * np.isin(loads, micro_ops)
    return dict(zip(loads.tolist(), places.tolist(), strict=True))


def vector_differences(contents: Contents, vector: Vector) -> tuple[Difference, ...]:
    """Return where the results of a vector's program differ from what the vector expects; nothing if the
    program does not run to its end."""
    dram = with_slack(contents.recording.image.before)
    try:
        Machine(vector.config).run(contents.recording.program, dram)
    except DeviceError:
        return ()
    return dram_differences(contents, vector, dram)


def dram_differences(contents: Contents, vector: Vector, dram: ByteArray) -> tuple[Difference, ...]:
    """Return where DRAM up to the stream is not as a vector expects after a run.

    Args:
        dram: uint8[bytes], DRAM after the run.
    """
    differences, end = list[Difference](), 0
    for segment in vector.segments:
        differences += _written_between(contents, end, dram[end : segment.address])
        actual, end = dram[segment.address : segment.end], segment.end
        differences += differences_of(contents, segment.address, actual, segment.expected)
    differences += _written_between(contents, end, dram[end : stream_address(vector)])
    return _ordered(contents, differences)


def _written_between(contents: Contents, address: int, gap: ByteArray) -> tuple[Difference, ...]:
    """Return the bytes that are not zero between two segments."""
    wrong = np.flatnonzero(gap)
    if not len(wrong):
        return ()
    first, last = int(wrong[0]), int(wrong[-1]) + 1
    return differences_of(contents, address + first, gap[first:last], np.zeros(last - first, np.uint8))


def _ordered(contents: Contents, differences: Sequence[Difference]) -> tuple[Difference, ...]:
    started = contents.recording.timing.started
    return tuple(sorted(differences, key=lambda row: (row.store == NONE, int(started[row.store]))))


class WatchedSession(Session):
    """A session that keeps what DRAM held before each launch.

    Attributes:
        before: by stream, uint8[bytes].
    """

    def __init__(self, device: Device, plan: Plan) -> None:
        super().__init__(device, plan, verifies=False)
        self.before: dict[str, ByteArray] = {}

    def launch(self, step: LaunchStep) -> Ran:
        """Keep DRAM, and run a launch."""
        self.before[step.stream] = self.device.copy_out(0, self.device.dram_bytes)
        return super().launch(step)


def reference_values(plan: Plan, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return the value of every result of a network, as its graph of integer operators defines it; nothing if
    the module carries no graph.

    Args:
        inputs: an array for each input.
    """
    from vdla.compiler.graph.interpret import all_values  # vectors need no compiler
    from vdla.compiler.graph.parse import parse_graph

    if plan.graphs is None:
        return {}
    graph = parse_graph(plan.graphs.target, dict(plan.graphs.constants))
    return all_values(graph, inputs)


def launch_differences(
    contents: Contents,
    ran: Ran,
    pads: Scratchpads,
    before: ByteArray,
    values: Mapping[str, np.ndarray],
) -> tuple[Difference, ...]:
    """Return where the results of a launch's layers differ from the network's, each as it is when the layer
    has ended.

    Args:
        pads: scratchpads as the launch before has left them; changed to their contents after this launch.
        before: uint8[bytes], DRAM before the launch; changed to DRAM afterwards.
        values: results of the network, by name.
    """
    recording, differences = contents.recording, list[Difference]()
    ends = {
        number: int(layer.instructions.max())
        for number, layer in enumerate(recording.layers)
        if len(layer.instructions)
    }
    for index in executed_up_to(recording.program, pads, before, list(ends.values())):
        for number, layer in enumerate(ran.step.layers):
            if ends.get(number) == index and layer.result is not None and layer.result.value in values:
                instructions = recording.layers[number].instructions
                at = ran.launch.addresses[layer.result.tensor] + layer.result.begin
                differences += _of_layer(
                    contents, layer.result, at, before, values[layer.result.value], instructions
                )
    return _ordered(contents, differences)


def _of_layer(
    contents: Contents, result: Crossing, at: int, dram: ByteArray, value: np.ndarray, instructions: IntArray
) -> tuple[Difference, ...]:
    """Return where the result of a layer in DRAM differs from its value."""
    expected = result.layout.pack(value).reshape(-1).view(np.uint8)
    counted: BoolArray = result.layout.pack(np.ones(value.shape, np.int8)).reshape(-1) != 0
    actual = dram[at : at + len(expected)]
    return differences_of(contents, at, np.where(counted, actual, expected), expected, instructions)

"""Errors of runs: stops, unsafe accesses, wrong results, and what devices find."""

from dataclasses import replace

import numpy as np
import pytest

from tests.explore.debug.planted import planted, product, wrong_store
from tests.explore.debug.programs import ENDING, STOPPED, recording
from vdla.explore.debug.contents import Contents
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.devices import DeviceRun, differing_recording
from vdla.explore.debug.errors import ErrorKind, errors_of
from vdla.explore.debug.recording import NONE
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.vectors import Vector, replay


@pytest.mark.parametrize("name", STOPPED)
def test_a_stop_is_the_first_error_and_shows_at_the_end(name):
    run = recording(name)
    first = errors_of(Contents(run))[0]
    assert (first.kind, first.cycle) == (ErrorKind.STOP, run.timing.cycles - 1)
    for index, relation in first.others:
        assert run.timing.started[index] < 0 or run.timing.retired[index] < 0
        assert relation.startswith("waits")


@pytest.mark.parametrize("name", ENDING)
def test_runs_without_known_dram_have_no_errors(name):
    assert errors_of(Contents(recording(name))) == ()


def test_a_conflict_names_both_instructions_and_who_gave_the_token():
    cause = planted("A token too many")
    (error,) = Debugger(cause.recording).errors
    assert error.kind is ErrorKind.HAZARD
    assert "both use INP element" in error.text
    assert [relation for _, relation in error.others] == [
        "it conflicts with",
        "gave it the token compute->load",
    ]
    assert error.others[1][0] == cause.culprits[0]


def test_wrong_results_name_the_store_and_the_loads_of_wrong_results_only():
    cause = planted("A wrong address")
    (error,) = Debugger(cause.recording).errors
    assert error.kind is ErrorKind.RESULT
    assert cause.recording.texts[error.instruction].startswith("STORE")
    assert error.others[0][0] == cause.culprits[0]
    right = {index for index, text in enumerate(cause.recording.texts) if text.startswith("STORE")}
    flow = Contents(cause.recording).flow
    for store in right - {error.instruction}:
        assert not flow.origins(store) & {index for index, _ in error.others}


def test_a_store_to_a_wrong_address_leaves_bytes_that_nothing_writes():
    cause = wrong_store()
    first, second = Debugger(cause.recording).errors
    assert (first.instruction,) == cause.culprits
    assert second.instruction == NONE
    assert "64 bytes are wrong that no instruction writes" in second.text


def test_a_wrong_entry_of_a_table_is_told_by_its_two_values():
    errors = Debugger(planted("A wrong table").recording).errors
    assert "for layer C: " in errors[0].text
    assert errors[0].text.endswith("; all have these two values")
    assert errors[0].others == ((0, "loads its table sq.T"),)
    assert any("for layer C2: " in error.text for error in errors)


def product_vector() -> Vector:
    gemm = product()
    return gemm.vector(gemm.stream)


def ran(vector: Vector, device: str, **changes) -> DeviceRun:
    """Return the run of a vector; `changes` of its result stand for a device with a fault."""
    devices = []

    def make(config, size):
        devices.append(FunctionalDevice(config, size))
        return devices[-1]

    replay(vector, make)
    return replace(DeviceRun(device, devices[0].dram), **changes)


def altered(vector: Vector, address: int) -> np.ndarray:
    dram = ran(vector, "x").dram.copy()
    dram[address] ^= 1
    return dram


def test_devices_that_agree_give_no_recording():
    vector = product_vector()
    runs = [ran(vector, "cycle", cycles=100), ran(vector, "rtl", cycles=100), ran(vector, "functional")]
    assert differing_recording(vector, runs) is None


def test_a_byte_that_differs_leads_to_the_store_that_wrote_it():
    vector = product_vector()
    address = product().at.out + 70
    runs = [ran(vector, "cycle"), ran(vector, "rtl", dram=altered(vector, address))]
    recording = differing_recording(vector, runs)
    errors = Debugger(recording).errors
    assert [error.text.split(": ")[0] for error in errors] == [
        "rtl, compared with the vector",
        "rtl, compared with cycle",
    ]
    contents = Contents(recording)
    for error in errors:
        assert f"byte {address:#x}" in error.text
        assert any(
            view.writes and address in range(view.begin, view.begin + view.width)
            for view in contents.touched(error.instruction)
        )


def test_a_byte_outside_the_segments_is_compared_with_zero():
    vector = product_vector()
    address = vector.segments[-1].end + 5
    (error,) = Debugger(
        differing_recording(vector, [ran(vector, "rtl", dram=altered(vector, address))])
    ).errors
    assert "1 byte is wrong that no instruction writes" in error.text


def test_cycles_that_differ_are_told():
    vector = product_vector()
    (error,) = Debugger(
        differing_recording(vector, [ran(vector, "cycle", cycles=1000), ran(vector, "rtl", cycles=1010)])
    ).errors
    assert (error.kind, error.text) == (ErrorKind.DEVICE, "cycle takes 1,000 cycles, and rtl takes 1,010")


def test_an_error_of_a_device_comes_first_and_its_results_are_not_compared():
    vector = product_vector()
    failed = ran(
        vector, "rtl", dram=np.zeros(0, np.uint8), error="AccessError: instruction 9 reaches", index=9
    )
    errors = Debugger(differing_recording(vector, [ran(vector, "cycle"), failed])).errors
    assert [(error.kind, error.instruction) for error in errors] == [(ErrorKind.DEVICE, 9)]
    assert errors[0].text == "rtl: AccessError: instruction 9 reaches"
    assert differing_recording(vector, [failed, ran(vector, "cycle")]) is not None

"""The comparison of the simulator's SDRAM with LiteDRAM: parameters come from LiteDRAM, and differences are seen."""

import measure_sdram
import pytest
from click.testing import CliRunner
from measure_sdram import Row, main, table
from sdram import controller
from sdram.controller import NAME, controller_verilog
from sdram.device import LiteDramDevice, System, bench_verilog

from vdla.boards.sdram import parameters_at
from vdla.hw.spec.presets import SMALL, TINY
from vdla.hw.spec.sdram import SdramParameters
from vdla.runtime.workloads import place_gemm, plan_gemm, random_operands


def test_the_defaults_are_what_litedram_computes_for_the_part_of_a_ulx3s():
    assert parameters_at("MT48LC16M16", 50.0) == SdramParameters()


def test_a_faster_clock_and_another_part_have_other_times():
    parameters = parameters_at("AS4C32M16", 100.0)
    assert (parameters.precharge, parameters.refresh, parameters.column_bits, parameters.row_active) == (
        2,
        6,
        10,
        0,
    )
    assert parameters.refresh_interval == 782


def test_a_harness_reaches_the_banks_of_the_sdram():
    text = controller_verilog("MT48LC16M16", 50.0, 64, 32)
    assert f"module {NAME}" in text
    for bank in ("mem", "mem_1", "mem_2", "mem_3"):
        assert f" {bank}[0:4194303] /*verilator public_flat_rw*/;" in text
    with pytest.raises(ValueError, match="has no memory mem_4"):
        controller._public(text, "mem_4")


def test_every_wire_of_the_bus_is_connected_on_both_sides():
    text = bench_verilog(TINY.with_changes(axi_address_bits=32))
    for wire in ("awvalid", "wstrb", "bready", "araddr", "rlast"):
        assert f".m_axi_{wire}({wire})" in text
    assert ".aw_valid(awvalid)" in text
    assert ".r_payload_data(rdata)" in text
    assert ".b_param_id(bid)" in text


def test_the_table_names_programs_that_differ():
    rows = [Row("first", 10, 100, 100, True), Row("second", 10, 99, 100, False)]
    text = table(rows)
    assert "-1.000%  DIFFERS" in text
    assert "2 programs: 1 equal, largest difference 1.000 %" in text


@pytest.mark.parametrize(
    ("row", "status"), [(Row("a", 1, 100, 100, True), 0), (Row("a", 1, 97, 100, True), 1)]
)
def test_the_exit_status_tells_of_a_difference(row, status, monkeypatch, tmp_path):
    monkeypatch.setattr(measure_sdram, "LiteDramDevice", lambda *_: None)
    monkeypatch.setattr(measure_sdram, "rows_of", lambda *_: iter([row]))
    done = CliRunner().invoke(main, ["--output", str(tmp_path / "rows.json")])
    assert done.exit_code == status
    assert (tmp_path / "rows.json").read_text().count('"program"') == 1


@pytest.mark.slow
def test_a_gemm_takes_the_same_cycles_in_front_of_litedram_and_in_the_simulator():
    config = SMALL.with_changes(axi_address_bits=32)
    devices = (
        LiteDramDevice(System(config), 1 << 20),
        measure_sdram.CycleDevice(config, 1 << 20, SdramParameters()),
    )
    plan = plan_gemm(config, 64, 64, 64)
    operands = random_operands(plan)
    runs = [place_gemm(device, plan, *operands) for device in devices]
    results = [run.run() for run in runs]
    assert results[0].cycles == results[1].cycles
    assert (runs[0].output() == runs[0].expected()).all()

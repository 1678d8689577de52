"""Vivado projects: the script in a Tcl interpreter whose Vivado commands check and record, the buses in the
Verilog, the address map, and what does not fit."""

import json
import re
from dataclasses import replace
from hashlib import sha256

import msgspec
import pytest

from tests.boards.vivado import design_of, faults, run_script
from vdla.boards.board_file import MapTable, read_board_file
from vdla.boards.description import ZynqBoard, board_names, load_board
from vdla.boards.zynq import SYSTEMS, write_project
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import TINY, ZYNQ_7020
from vdla.hw.spec.target import ClockSource, Target

BOARDS = board_names(ZynqBoard)
AREA = {"lut": 26253.0, "ff": 20361.0, "dsp": 185.0, "block_ram": 121.0}  # zynq-7020 in docs/area.md
TARGET = Target(TINY)

# Pins and buses of the processing systems once a property is 1, and their other properties: AMD PG082, PG201.
ALWAYS = {"processing_system7": {"FCLK_CLK0", "FCLK_RESET0_N"}, "zynq_ultra_ps_e": {"pl_clk0", "pl_resetn0"}}
ENABLED = {
    "PCW_USE_M_AXI_GP0": ({"M_AXI_GP0_ACLK"}, {"M_AXI_GP0": "master"}),
    "PCW_USE_S_AXI_HP0": ({"S_AXI_HP0_ACLK"}, {"S_AXI_HP0": "slave"}),
    "PCW_USE_S_AXI_HP1": ({"S_AXI_HP1_ACLK"}, {"S_AXI_HP1": "slave"}),
    "PCW_USE_FABRIC_INTERRUPT": ({"IRQ_F2P"}, {}),
    "PSU__USE__M_AXI_GP0": ({"maxihpm0_fpd_aclk"}, {"M_AXI_HPM0_FPD": "master"}),
    "PSU__USE__M_AXI_GP1": ({"maxihpm1_fpd_aclk"}, {"M_AXI_HPM1_FPD": "master"}),
    "PSU__USE__M_AXI_GP2": ({"maxihpm0_lpd_aclk"}, {"M_AXI_HPM0_LPD": "master"}),
    "PSU__USE__S_AXI_GP2": ({"saxihp0_fpd_aclk"}, {"S_AXI_HP0_FPD": "slave"}),
    "PSU__USE__S_AXI_GP3": ({"saxihp1_fpd_aclk"}, {"S_AXI_HP1_FPD": "slave"}),
    "PSU__USE__IRQ0": ({"pl_ps_irq0"}, {}),
}
OTHER_PROPERTIES = {
    "processing_system7": {
        "PCW_S_AXI_HP0_DATA_WIDTH": {"32", "64"},
        "PCW_S_AXI_HP1_DATA_WIDTH": {"32", "64"},
        "PCW_EN_CLK0_PORT": {"1"},
        "PCW_EN_RST0_PORT": {"1"},
        "PCW_IRQ_F2P_INTR": {"1"},
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": {"100"},
    },
    "zynq_ultra_ps_e": {
        "PSU__SAXIGP2__DATA_WIDTH": {"32", "64", "128"},
        "PSU__SAXIGP3__DATA_WIDTH": {"32", "64", "128"},
        "PSU__FPGA_PL0_ENABLE": {"1"},
        "PSU__USE__FABRIC__RST": {"1"},
        "PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": {"100"},
    },
}
SEGMENTS = {"processing_system7": "ps/S_AXI_HP0/HP0_DDR_LOWOCM", "zynq_ultra_ps_e": "ps/SAXIGP2/HP0_DDR_LOW"}
PREFIX = {"processing_system7": "PCW_", "zynq_ultra_ps_e": "PSU__"}

# The signals of a channel, and the width of each: ARM IHI 0022, chapters A2 and B1.
ADDRESS = {"addr": 32, "prot": 3, "valid": 1, "ready": 1}
LITE = (
    {f"{channel}{name}": width for channel in ("aw", "ar") for name, width in ADDRESS.items()}
    | {"wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1, "bresp": 2, "bvalid": 1, "bready": 1}
    | {"rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1}
)
BURST = {"id": 1, "len": 8, "size": 3, "burst": 2, "cache": 4}
FULL = (
    LITE
    | {f"{channel}{name}": width for channel in ("aw", "ar") for name, width in BURST.items()}
    | {"wdata": 64, "wstrb": 8, "wlast": 1, "bid": 1, "rid": 1, "rdata": 64, "rlast": 1}
)
BUSES = {"m_axi": FULL, "s_axi": LITE | {"awaddr": 12, "araddr": 12}}
FROM_SLAVE = {"awready", "arready", "wready", *(f"b{name}" for name in ("id", "resp", "valid"))}
FROM_SLAVE |= {f"r{name}" for name in ("id", "data", "resp", "last", "valid")}
PORT = re.compile(
    r'X_INTERFACE_INFO = "xilinx\.com:(\w+:\w+):1\.0 (\w+) (\w+)" \*\)\n(?:  \(\* X_INTERFACE_PARAMETER.*\n)?'
    r"  (input|output) wire (?:\[(\d+):0\] )?(\w+)"
)


def write(folder, name="pynq-z2", target=TARGET, area=AREA, **options):
    board = load_board(name) if isinstance(name, str) else name
    write_project(board, target, folder, area, **options)
    return board


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """Return the folder of the project of each board."""
    folders = {name: tmp_path_factory.mktemp(name) for name in BOARDS}
    for name, folder in folders.items():
        write(folder, name)
    return folders


def edited(source, folder, old, new):
    """Copy a project, with one change in its script."""
    folder.mkdir(exist_ok=True)
    text = (source / "build.tcl").read_text()
    assert old in text
    (folder / "build.tcl").write_text(text.replace(old, new))
    return folder


def ports_of(project):
    """Return the ports with attributes in the Verilog of a project: kind, interface, role, way, bits, name."""
    found = PORT.findall((project / "vdla_axi.v").read_text())
    return [(kind, name, role, way, int(high or 0) + 1, port) for kind, name, role, way, high, port in found]


def faults_of(project, ran):
    """Return the faults of the block design, with the pins that its properties and the Verilog declare."""
    design = design_of(ran.calls)
    (ip,) = {block for cell, block in design.cells.items() if cell == "ps"}
    given = {name.removeprefix("CONFIG."): value for name, value in design.properties["ps"].items()}
    on = [ENABLED[name] for name, value in given.items() if name in ENABLED and value == "1"]
    ports = ports_of(project)
    pins = {
        ip: ALWAYS[ip].union(*(pins for pins, _ in on)),
        "vdla_axi": {name for kind, name, *_ in ports if kind.startswith("signal")},
    }
    roles = {name: way for _, name, role, way, *_ in ports if role == "AWVALID"}
    buses = {
        ip: {name: role for _, named in on for name, role in named.items()},
        "vdla_axi": {name: "master" if way == "output" else "slave" for name, way in roles.items()},
    }
    return list(faults(design, pins, buses))


@pytest.mark.parametrize("name", BOARDS)
def test_the_script_calls_vivado_as_its_manual_says(name, projects):
    ran = run_script(projects[name])
    assert ran.status == 0, ran.said
    zynq = load_board(name).zynq
    assert ["create_project", "-force", "-part", zynq.part, "vdla", f"{projects[name]}/project"] in ran.calls
    assert ["set_property", "board_part", "vendor:board:part0:1.10", "<current_project>"] in ran.calls
    assert ["get_board_parts", "-quiet", f"{zynq.board_part}:*"] in ran.calls
    assert (projects[name] / "bitstream.bit").exists()


@pytest.mark.parametrize("name", BOARDS)
def test_every_pin_of_the_block_design_exists_and_is_connected(name, projects):
    ran = run_script(projects[name])
    assert faults_of(projects[name], ran) == []
    design = design_of(ran.calls)
    assert sorted(design.cells.values()) == sorted(
        [load_board(name).zynq.system, "vdla_axi", "proc_sys_reset", "smartconnect", "smartconnect"]
    )


@pytest.mark.parametrize("name", BOARDS)
def test_one_clock_and_one_reset_reach_every_cell(name, projects):
    design = design_of(run_script(projects[name]).calls)
    clocks = {source for source, sink in design.nets if re.search("a?clk$", sink, re.IGNORECASE)}
    assert len(clocks) == 1
    assert {source for source, sink in design.nets if sink.endswith("aresetn")} == {
        "reset/peripheral_aresetn"
    }


@pytest.mark.parametrize("name", BOARDS)
def test_properties_are_those_of_the_processing_system(name, projects):
    ip = load_board(name).zynq.system
    given = design_of(run_script(projects[name]).calls).properties["ps"]
    for full, value in given.items():
        prefix, _, property_name = full.partition(".")
        assert prefix == "CONFIG"
        assert property_name.startswith(PREFIX[ip])
        assert property_name in ENABLED or value in OTHER_PROPERTIES[ip][property_name], full


@pytest.mark.parametrize("name", BOARDS)
def test_addresses_are_those_that_the_driver_reads(name, projects):
    board, file = load_board(name), read_board_file(projects[name])
    segments = design_of(run_script(projects[name]).calls).segments
    assert segments == {
        ("ps/Data", "vdla/s_axi/reg0"): (file.map.registers, 4096),
        ("vdla/m_axi", SEGMENTS[board.zynq.system]): (file.map.memory, file.map.memory_bytes),
    }
    assert file.link == board.link
    assert (file.link.kind, file.memory.kind) == ("devmem", "PS")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("[get_bd_intf_pins data/S00_AXI]", "[get_bd_intf_pins data/S01_AXI]", "bus data/S01_AXI does not exist"),
    ("connect_bd_net [get_bd_pins vdla/interrupt]", "list", "pin ps/IRQ_F2P is open"),
    ("CONFIG.PCW_USE_S_AXI_HP0 1", "CONFIG.PCW_USE_S_AXI_HP0 0", "bus ps/S_AXI_HP0 does not exist"),
    ("CONFIG.PCW_EN_CLK0_PORT 1", "CONFIG.PCW_USE_S_AXI_HP1 1", "bus ps/S_AXI_HP1 is open"),
    ("control/M00_AXI] [get_bd_intf_pins vdla/s_axi]", "control/M00_AXI] [get_bd_intf_pins vdla/m_axi]", "bus vdla/m_axi has two connections"),
    ("{vdla/aresetn control", "{vdla/aresetn vdla/aresetn control", "pin vdla/aresetn has two drivers"),
])  # fmt: skip
def test_a_broken_block_design_is_noticed(projects, tmp_path, old, new, message):
    folder = edited(projects["pynq-z2"], tmp_path / "broken", old, new)
    assert message in faults_of(projects["pynq-z2"], run_script(folder))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("report_timing_summary -file", "report_timing_summary -out", "report_timing_summary has no option -out"),
    ("validate_bd_design", "check_bd_design", 'invalid command name "check_bd_design"'),
    ("complete synth_1", "complete synth_1 -part x", "launch_runs has no option -part"),
    ("$ps_segment", "$segment", 'can\'t read "segment"'),
])  # fmt: skip
def test_a_wrong_call_is_noticed(projects, tmp_path, old, new, message):
    ran = run_script(edited(projects["kv260"], tmp_path / "broken", old, new))
    assert ran.status == 1
    assert message in ran.said


@pytest.mark.parametrize(("answers", "message"), [
    ({"WNS": "-0.001"}, "vdla: the timing is not met, and no bitstream was written; timing.rpt names"),
    ({"WHS": "-0.2"}, "vdla: the timing is not met"),
    ({"WNS": ""}, "vdla: impl_1 has no worst slack"),
    ({"PROGRESS": "60%"}, "vdla: synth_1 has failed; project/vdla.runs/synth_1/runme.log says why"),
    ({"BOARD_PARTS": ""}, "vdla: Vivado has no board files for tul.com.tw:pynq-z2:part0; install them"),
    ({"FREQ_HZ": "111111115"}, "vdla: the processing system makes 111.111115 MHz of 100 MHz; repeat vdla build with --set clock_mhz=111.111115"),
])  # fmt: skip
def test_a_build_that_fails_stops_and_leaves_no_bitstream(tmp_path, answers, message):
    write(tmp_path / "project")
    (tmp_path / "project/bitstream.bit").write_text("of an earlier build")
    ran = run_script(tmp_path / "project", **answers)
    assert ran.status == 1
    assert message in ran.said
    assert not (tmp_path / "project/bitstream.bit").exists()
    assert not any("write_bitstream" in call for call in ran.calls)


def test_a_slow_clock_is_taken_when_allowed(tmp_path):
    write(tmp_path / "project", allow_slow_clock=True)
    assert run_script(tmp_path / "project", WNS="-0.5").status == 0
    assert (tmp_path / "project/bitstream.bit").exists()


def test_reports_are_written_before_the_timing_is_judged(projects):
    ran = run_script(projects["kv260"], WNS="-1")
    assert ["report_utilization", "-file", "utilisation.rpt"] in ran.calls
    assert ["report_timing_summary", "-file", "timing.rpt"] in ran.calls


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("bus", BUSES)
def test_a_bus_has_every_signal_of_its_protocol_with_its_width(name, bus, projects):
    ports = [port for port in ports_of(projects[name]) if port[1] == bus]
    assert {role.lower(): bits for _, _, role, _, bits, _ in ports} == BUSES[bus]
    assert all(port == f"{bus}_{role.lower()}" for _, _, role, _, _, port in ports)
    inward = FROM_SLAVE if bus == "m_axi" else BUSES[bus].keys() - FROM_SLAVE
    assert {role.lower() for _, _, role, way, *_ in ports if way == "input"} == inward & BUSES[bus].keys()


def test_clock_target_and_digests_are_recorded(tmp_path):
    write(tmp_path, target=replace(TARGET, clock_mhz=80.0, clock_source=ClockSource.GIVEN))
    file, report = read_board_file(tmp_path), json.loads((tmp_path / "report.json").read_text())
    script = (tmp_path / "build.tcl").read_text()
    assert "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ 80}" in script
    assert "set clock_mhz {80}" in script
    assert file.board.clock_mhz == file.target.clock_mhz == report["mhz_asked"] == 80.0
    assert file.target.config == TINY
    texts = {name: (tmp_path / name).read_text() for name in ("vdla_axi.v", "build.tcl")}
    assert report["files"] == {name: sha256(text.encode()).hexdigest() for name, text in texts.items()}
    assert file.board.digest == report["digest"] == digest_of(part for each in texts.items() for part in each)
    assert report["vivado"] == "not run in Vivado"
    assert "not run in Vivado" in script.splitlines()[0]


def test_the_clock_of_a_preset_is_replaced_by_that_of_the_board(tmp_path):
    board = msgspec.structs.replace(load_board("pynq-z2"), clock_mhz=66.0)
    write(tmp_path, board)
    assert read_board_file(tmp_path).board.clock_mhz == 66.0


def test_another_port_is_another_pin_clock_and_segment(tmp_path):
    board = load_board("kv260")
    board = msgspec.structs.replace(board, zynq=msgspec.structs.replace(board.zynq, port="HP1"))
    write(tmp_path / "project", board)
    ran = run_script(tmp_path / "project")
    assert faults_of(tmp_path / "project", ran) == []
    assert ("vdla/m_axi", "ps/SAXIGP3/HP1_DDR_LOW") in design_of(ran.calls).segments


@pytest.mark.parametrize(("resource", "amount", "message"), [
    ("lut", 53201.0, "zynq-7020 does not fit into the xc7z020clg400-1 of pynq-z2: it takes 53,201 of 53,200 LUTs; choose"),
    ("dsp", 221.0, "it takes 221 of 220 DSP blocks; choose a smaller configuration or another board"),
    ("block_ram", 140.5, "it takes 140.5 of 140 block RAMs of 36 Kbit; choose"),
])  # fmt: skip
def test_a_core_that_is_too_large_is_refused_and_nothing_is_written(tmp_path, resource, amount, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        write(tmp_path / "out", target=Target(ZYNQ_7020), area=AREA | {resource: amount})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("changes", "message"), [
    ({"registers": 0x8000_0000}, "map.registers = 0x80000000 is not a multiple of 0x1000 in 0x40000000..0x7fffffff, the addresses of M_AXI_GP0"),
    ({"registers": 0x43C0_0800}, "map.registers = 0x43c00800 is not a multiple"),
    ({"memory": 0x2000_0000}, "ends at 0x28000000, and S_AXI_HP0 has DDR up to 0x20000000; change the description"),
    ({"memory": 0x1400_0000}, "at 0x14000000 is not at a multiple of its size"),
    ({"memory_bytes": 0x600_0000}, "a window of 0x6000000 bytes is not a power of two"),
])  # fmt: skip
def test_an_address_outside_its_port_is_refused(tmp_path, changes, message):
    board = load_board("pynq-z2")
    board = msgspec.structs.replace(board, map=msgspec.structs.replace(board.map, **changes))
    with pytest.raises(ConfigError, match=re.escape(message)):
        write(tmp_path / "out", board)
    assert not (tmp_path / "out").exists()


def test_a_port_has_no_more_ddr_than_its_segment(tmp_path):
    board = load_board("pynq-z2")
    board = msgspec.structs.replace(
        board,
        zynq=msgspec.structs.replace(board.zynq, ddr_bytes=1 << 31),
        map=MapTable(registers=board.map.registers, memory=1 << 30, memory_bytes=1 << 20),
    )
    with pytest.raises(ConfigError, match="S_AXI_HP0 has DDR up to 0x40000000"):
        write(tmp_path / "out", board)


def test_descriptions_of_one_part_agree_on_its_capacity():
    boards = [load_board(name) for name in BOARDS]
    assert len({(board.zynq.part, board.capacity) for board in boards}) == len({b.zynq.part for b in boards})
    assert {board.zynq.system for board in boards} == set(SYSTEMS)

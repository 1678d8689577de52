"""`vdla debug`: commands from standard input and from options, and what it refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import vdla
from tests.cli.commands import done, invoke, refused
from tests.cli.models import model, node
from tests.explore.debug.planted import altered_plan
from vdla.cli import main
from vdla.cli._runs import time_vector
from vdla.explore.debug.stepper import COMMANDS
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.runtime.module.plan import random_inputs

VECTOR = Path(__file__).parents[1] / "vectors" / "vta" / "conv3x3_d.npz"
STATE = """\
cycle 2,696 of 14,920, 45 LOAD(memory_type=UOP, sram_base=18, dram_base=1042, y_size=1, x_size=1, x_stride=1)
  load     waits for a token compute->load
           next         79 LOAD(pop_next=1, memory_type=INP, sram_base=1024, dram_base=4194660, y_size=5, x_size=10, x_stride=10, y_pad_0=1, x_pad_0=1, x_pad_1=1)
           queue        4 of 64: 79, 80, 111, 112
  compute  busy
           in progress  44 GEMM(uop_begin=17, uop_end=18, iter_out=4, iter_in=10, dst_factor_out=10, dst_factor_in=1, src_factor_out=12, src_factor_in=1)
           next         45 LOAD(memory_type=UOP, sram_base=18, dram_base=1042, y_size=1, x_size=1, x_stride=1)
           queue        64 of 64: 45, 46, 47, 48, 49, 50, ...
  store    waits for a token compute->store
           next         55 STORE(pop_prev=1, push_prev=1, memory_type=OUT, dram_base=4195840, y_size=1, x_size=40, x_stride=40)
           queue        2 of 64: 55, 107
  dispatch waits for a place in the compute queue: 117 LOAD(memory_type=UOP, sram_base=49, dram_base=1073, y_size=1, x_size=1, x_stride=1)
  tokens   load->compute 1, compute->load 0, compute->store 0, store->compute 1
  memory   no burst in flight
"""
WHY = """\
instruction 79 starts: cycle 2,815
     cycles     at cycle  waited for
          1        2,814  a token compute->load: instruction 46 retires
         49        2,765  its execution: instruction 46 starts
          1        2,764  the load engine: instruction 45 retires
          1        2,763  its data: burst 81 of instruction 45 moves its last beat
         65        2,698  the latency of memory: burst 81 of instruction 45 is requested
"""


def typed(text: str, *arguments: object):
    """Run the stepper with commands on standard input."""
    words = [str(each) for each in ("debug", *arguments, "--text")]
    return CliRunner().invoke(main, words, input=text)


def shown(*commands: str, source: Path = VECTOR) -> str:
    """Return what commands print."""
    return done("debug", source, *(word for each in commands for word in ("--command", each))).stdout


def stops(text: str) -> list[str]:
    """Return the cycles of the lines that say where the debugger stands."""
    return re.findall(r"^cycle ([\d,]+) of", text, re.MULTILINE)


def test_commands_come_from_standard_input_or_from_options():
    lines = ["goto instruction 45", "step 5", "back 10"]
    text = typed("\n".join(["# where", *lines, "", "quit", "step"]), VECTOR)
    assert (text.exit_code, text.stderr) == (0, "")
    assert stops(text.stdout) == ["2,696", "2,701", "2,691"]
    assert text.stdout == shown(*lines) == shown(*lines, "quit", "step")


def test_the_state_and_its_reasons_are_printed():
    assert shown("goto instruction 45", "state").split("\n", 1)[1] == STATE
    why = shown("goto 2696", "why load").split("\n", 1)[1]
    assert why.startswith(WHY)
    assert why.endswith("      2,815               sum of 246 links, back to cycle 0: the run begins\n")


def test_the_cycles_of_the_listed_links_add_up():
    lines = shown("goto 2696", "why load").splitlines()[3:]
    costs = [int(line.split()[0].replace(",", "")) for line in lines]
    assert sum(costs[:-1]) == costs[-1] == 2815


def test_steps_go_by_instruction_unit_and_layer():
    text = shown("next compute 3", "previous compute", "next store 2", "layer", "layer back")
    places = stops(text)
    assert places[:3] == ["81", "76", "3,443"]
    assert places[2:] == [places[2]] * 3
    assert text.count("no such layer") == 2
    assert [line.split()[5].split("(")[0] for line in text.splitlines()[:3]] == ["LOAD", "LOAD", "STORE"]
    assert "STORE" in shown("goto end", "previous store")


def test_breakpoints_stop_the_run_and_can_be_deleted():
    text = shown(
        "break tokens load->compute >= 2", "break instruction 45", "continue", "continue", "continue back",
        "delete 2", "break", "continue back", "delete", "continue",
    )  # fmt: skip
    assert stops(text) == ["2,696", "3,281", "2,696", "0", "14,920"]
    assert "breakpoint 1: tokens load->compute >= 2, begins to hold 5 times in this run" in text
    assert "\n  1  tokens load->compute >= 2\n" in text
    assert "the run has no other stop\ncycle 14,920 of 14,920" in text


def test_the_counters_at_the_end_are_those_of_the_run():
    counters = time_vector(VECTOR, REFERENCE_MEMORY).counters
    rows = [line.split() for line in shown("goto end", "counters").splitlines()[1:]]
    printed = {name: int(value.replace(",", "")) for name, value in rows}
    assert printed == counters


def test_the_path_lists_what_costs_most():
    lines = shown("path").splitlines()
    assert lines[0] == "the run ends: cycle 14,920"
    table = lines[lines.index("     cycles   share   links  waited for") + 1 :]
    costs = [int(line.split()[0].replace(",", "")) for line in table]
    assert sum(costs) == 14920
    assert costs == sorted(costs, reverse=True)


def test_help_lists_every_command_and_a_beginning_is_enough():
    listed = [line.split()[0] for line in shown("help").splitlines()]
    assert listed == list(COMMANDS)
    assert shown("ste 5", "prev", "cou") == shown("step 5", "previous", "counters")


REFUSED = {
    "no command": (
        "jump 5",
        "there is no command jump: commands are step, back, next, previous, layer, goto, find, ",
    ),
    "two commands": ("s 5", "there is no command s: it begins step and state; help lists what each does"),
    "arguments": ("goto 5 6", "goto does not take '5 6'; write goto CYCLE|end|instruction N"),
    "no argument": ("find", "find does not take 'no argument'; write find PATTERN [back]"),
    "number": ("step far", "'far' is not a number of steps; write a whole number, such as 64 or 0x40"),
    "cycle": (
        "goto 15000",
        "cycle 15000 is outside the run, whose cycles are 0 to 14920; choose one of these",
    ),
    "instruction": ("info 324", "instruction 324 is outside the stream, whose instructions are 0 to 323; "),
    "unit": ("why fetch", "'fetch' is not a unit or the number of an instruction; write a whole number"),
    "breakpoint": ("delete 1", "there is no breakpoint 1: there is none; break lists them"),
    "condition": ("break often", "the condition 'often' has no form of a breakpoint; write instruction N, "),
    "launch": ("launch 2", "there is no launch 2: launches are 1 to 1; choose one of these"),
    "memory": ("memory DRAM", "there is no scratchpad DRAM; choose UOP, INP, WGT, ACC"),
    "element": ("element INP", "element does not take 'INP'; write element MEMORY N"),
    "layer": ("layer Conv_0", "no layer is called Conv_0: this run has no layers"),
    "pattern": ("find (", "the pattern ( is no regular expression of Python (missing ), "),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("way", ["option", "typed"])
def test_a_wrong_command_is_one_line_and_status_2(case, way):
    command, message = REFUSED[case]
    result = invoke("debug", VECTOR, "--command", command) if way == "option" else typed(command, VECTOR)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


def test_files_that_cannot_be_debugged_are_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no")
    assert "x.npz" in refused("debug", tmp_path / "x.npz", "--text")
    (tmp_path / "x.vdla").write_bytes(b"no")
    assert "x.vdla" in refused("debug", tmp_path / "x.vdla", "--text")
    assert refused("debug", VECTOR) == (
        f"{VECTOR}: say how to step: --text in the terminal, or -o PAGE.html to write a page"
    )
    inputs = tmp_path / "i.npz"
    np.savez(inputs, x=np.zeros(1))
    assert refused("debug", VECTOR, "--text", "--input", inputs) == (
        f"{VECTOR} is a vector, which holds its DRAM, so --input {inputs} cannot change it; leave out --input"
    )


def test_memory_can_be_chosen():
    assert stops(done("debug", VECTOR, "--latency", 500, "--command", "goto end").stdout) != ["14,920"]


def test_a_deadlock_is_told_and_explained(tmp_path):
    with np.load(VECTOR) as file:
        arrays = {name: file[name].copy() for name in file.files}
    pushing = np.flatnonzero(arrays["instructions"][:, 0] & 0b1100000)
    arrays["instructions"][pushing[0], 0] &= 0b10011111
    np.savez(tmp_path / "stuck.npz", **arrays)
    result = done(
        "debug", tmp_path / "stuck.npz", "--command", "goto end", "--command", "back", "--command", "why"
    )
    assert result.stderr.startswith("stuck: the hardware stops the run: deadlock: no unit can go on\n")
    assert "starts: never\n" in result.stdout
    assert "sum of" in result.stdout


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Return a module of two launches."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "net.onnx").write_bytes(model().SerializeToString())
    done("compile", folder / "net.onnx", "-o", folder / "net.vdla", "--config", "tiny")
    return folder / "net.vdla"


def test_the_launches_of_a_module_are_stepped_through_with_their_layers(module):
    text = shown("launch", "layers", "layer next", "launch 2", "layers", "path", source=module)
    assert re.search(r"^\* 1  net 1: \d+ instructions, [\d,]+ cycles\n  2  net 2:", text, re.MULTILINE)
    names = re.findall(r"^ +\d+  (\S+)  cycles [\d,]+ to [\d,]+, \d+ instructions", text, re.MULTILINE)
    assert len(names) >= 2
    assert (
        shown(f"path {names[0]}", source=module)
        .splitlines()[0]
        .endswith("retires: cycle " + cycle_of(module, names[0]))
    )


def cycle_of(module: Path, layer: str) -> str:
    """Return the cycle in which the last instruction of a layer retires, as the list of layers shows its
    end."""
    return re.search(rf"{re.escape(layer)}  cycles [\d,]+ to ([\d,]+),", shown("layers", source=module))[1]


@pytest.fixture(scope="module")
def altered(tmp_path_factory):
    """Return a module with a wrong entry in a table, and inputs for it."""
    folder = tmp_path_factory.mktemp("altered")
    plan = altered_plan()
    vdla.api.Module(plan).save(folder / "net.vdla")
    np.savez(folder / "in.npz", **random_inputs(plan.inputs))
    return folder / "net.vdla", folder / "in.npz"


def test_a_wrong_result_of_a_module_names_layer_store_and_table(altered):
    module, inputs = altered
    result = done("debug", module, "--input", inputs, "--command", "errors")
    assert re.fullmatch(r"net: \d+ bytes of results are wrong; `errors` lists them\n", result.stderr)
    first, second, *_ = result.stdout.splitlines()
    assert "wrong result at cycle" in first
    assert "for layer C: the first, byte 0x" in first
    assert second.strip().startswith("loads its table sq.T: 0 LOAD(memory_type=TABLE")
    assert done("debug", module, "--command", "errors").stdout == "no errors\n"


def test_a_module_with_right_results_has_no_errors(module, tmp_path):
    np.savez(tmp_path / "in.npz", **random_inputs(vdla.load(module).inputs))
    for command in (["--input", tmp_path / "in.npz"], []):
        assert done("debug", module, *command, "--command", "errors").stdout == "no errors\n"


def test_the_memory_shows_what_lies_in_scratchpads():
    lines = shown("goto 2696", "memory", "memory INP").splitlines()[1:]
    assert lines[:2] == [
        "  UOP    18 of 8,192 elements written",
        "           0..17 segment 0x1000, by 5, 9, 11, 13, 15, 17, ... 43",
    ]
    assert (
        lines[-3:]
        == lines[2:5]
        == [
            "  INP    144 of 2,048 elements written",
            "           0..71 segment 0x4001000, by 59",
            "           1024..1095 segment 0x4001000, by 27",
        ]
    )


def test_an_element_and_a_byte_list_their_instructions():
    lines = [line.split() for line in shown("element INP 1030", "break element INP 1030").splitlines()]
    assert lines[0][:5] == ["writes", "in", "cycle", "270", "27"]
    assert lines[1][:5] == ["reads", "in", "cycle", "1,819", "30"]
    assert " ".join(lines[-1]).endswith("begins to hold 24 times in this run")
    assert "27 LOAD" in shown("element DRAM 0x4001640")
    assert shown("element DRAM 1") == "no instruction of the run touches it\n"


def test_info_has_what_an_instruction_reads_and_writes():
    text = shown("info 44")
    assert "  issues 40 slots\n" in text
    assert text.endswith(
        "  reads   UOP 17\n  reads   INP 1049..1058, 4 rows at a distance of 12\n  reads   WGT 519\n"
        "  adds to ACC 0..39\n  UOP from 43\n  WGT from 28\n  INP from 27\n  ACC from 42\n"
    )


def test_inputs_change_no_cycle(module, tmp_path):
    values = {name: np.ones(value.shape, value.dtype) for name, value in vdla.load(module).inputs.items()}
    np.savez(tmp_path / "in.npz", **values)
    plain = done("debug", module, "--command", "goto end")
    given = done("debug", module, "--input", tmp_path / "in.npz", "--command", "goto end")
    assert plain.stdout == given.stdout


def test_a_module_without_launches_is_refused(tmp_path):
    nodes = (node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y"))
    vdla.compile(model(nodes).SerializeToString(), "tiny").save(tmp_path / "host.vdla")
    assert refused("debug", tmp_path / "host.vdla", "--text").endswith("runs nothing on the accelerator")

"""How long the native code of each function is, in lines of LLVM's representation before it is optimised.

How long compiling takes depends on it. Who changes the code runs `make recorded`, which writes `lines.json`, and
reads in the difference what the change costs.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.recorded import write
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, TINY, VTA
from vdla.hw.spec.vocabulary import Extension
from vdla.sim.native.build import emit_module
from vdla.sim.native.dot import Dot

FILE = Path(__file__).with_name("lines.json")
NARROW = VTA.with_changes(
    name="narrow",
    batch=16,
    block_in=32,
    block_out=64,
    inp_bits=4,
    wgt_bits=2,
    acc_bits=16,
    wgt_buffer_bytes=1 << 16,
    acc_buffer_bytes=1 << 17,
)
SMALL = TINY.with_changes(name="small blocks", block_in=1, block_out=2, extensions=(Extension.REQUANTISE,))
WIDE = VTA.with_changes(
    name="wide outputs", block_out=128, wgt_buffer_bytes=1 << 19, acc_buffer_bytes=1 << 18
)
CASES = {
    f"{config.name}, {dot}": (config, dot)
    for config in (
        DEFAULT,
        VTA,
        NARROW,
        SMALL,
        WIDE,
        TINY.with_changes(name="further", extensions=tuple(Extension)),
    )
    for dot in (Dot(4, False), Dot(16, True))
}


@cache
def text_of(config: AcceleratorConfig, dot: Dot) -> str:
    return str(emit_module(config, dot))


def lines(config: AcceleratorConfig, dot: Dot) -> dict[str, int]:
    """Return the lines of each function that is emitted for a configuration, by its name."""
    functions = re.findall(r'^define .*?@"(\w+)"\((.*?)^}$', text_of(config, dot), re.M | re.S)
    return {name: len(body.splitlines()) for name, body in functions}


@pytest.mark.parametrize("title", CASES)
def test_functions_are_as_long_as_is_written_down(title):
    assert lines(*CASES[title]) == json.loads(FILE.read_text())[title]


@pytest.mark.parametrize("title", CASES)
def test_only_the_function_that_python_calls_is_seen_outside_and_the_others_stay_apart(title):
    """The optimiser drops what nobody calls, and takes twice as long for one large function."""
    heads = re.findall(r'^define (.*?)@"(\w+)"\(.*?\)(.*)$', text_of(*CASES[title]), re.M)
    assert {name for before, name, _ in heads if "internal" not in before} == {"run"}
    assert {name for _, name, behind in heads if "noinline" not in behind} == {"run"}
    assert len(heads) == len(lines(*CASES[title])) > 4


if __name__ == "__main__":
    write(FILE, {title: lines(*case) for title, case in CASES.items()})

"""What the sizes of components are said to depend on.

Stored models of areas are fitted to these features. Who changes a feature fits them again and runs
`make recorded`, which writes `features.json`.
"""

import json
from pathlib import Path

import pytest

from tests.recorded import write
from vdla.hw.components import components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, ECP5_25F, SMALL, TINY, ZYNQ_7020
from vdla.hw.spec.vocabulary import Extension, MemoryType

FILE = Path(__file__).with_name("features.json")
CONFIGS = (
    TINY,
    DEFAULT,
    ECP5_25F,
    ZYNQ_7020,
    TINY.with_changes(
        name="wide",
        batch=2,
        block_in=8,
        block_out=16,
        wgt_bits=4,
        acc_bits=16,
        bus_bits=256,
        acc_ports=2,
        alu_lanes=4,
        alu_stages=2,
        alu_opcodes="ADD,MUL,SHR",
        gemm_stages=4,
        requantise_lanes=8,
        max_requests=5,
        wgt_buffer_bytes=1 << 15,
        acc_buffer_bytes=1 << 16,
        extensions=(Extension.REQUANTISE, Extension.RESIDUAL, Extension.PAD_VALUE),
    ),
    TINY.with_changes(
        name="further", block_in=16, block_out=8, requantise_lanes=2, extensions=tuple(Extension)
    ),
    TINY.with_changes(name="bare", alu_opcodes=(), extensions=(), gemm_stages=1, bus_bits=128),
)


def features_of(config: AcceleratorConfig) -> dict[str, dict[str, object]]:
    """Return the features and the memories of each component, by its name."""
    return {
        part.name: {
            "kind": part.kind,
            **{name: value for name, value in part.features.items() if value},
            "memories": [[shape.depth, shape.bits, shape.lanes] for shape in part.memories],
        }
        for part in components(config)
    }


def feature(config, kind, name):
    """Return a feature of the only component of a kind."""
    [component] = [part for part in components(config) if part.kind == kind]
    return component.features[name]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_features_are_those_that_models_were_fitted_to(config):
    expected, actual = json.loads(FILE.read_text())[config.name], features_of(config)
    assert {name: part for name, part in actual.items() if part != expected.get(name)} == {}
    assert actual.keys() == expected.keys()


@pytest.mark.parametrize(
    ("block_in", "stages", "terms"),
    [
        (4, 3, 0),  # a register behind each level of two
        (4, 2, 2),  # one sum of four terms
        (8, 3, 2),  # pairs, then one sum of four
        (8, 2, 6),
        (16, 3, 10),  # four sums of four terms, then one sum
        (16, 5, 0),
    ],
)
def test_sums_without_registers_inside_save_their_carries(block_in, stages, terms):
    config = TINY.with_changes(block_in=block_in, gemm_stages=stages)
    bits = config.batch * config.block_out * (config.inp_bits + config.wgt_bits + 1)
    assert feature(config, "pipeline", "saved_carries") == terms * bits


@pytest.mark.parametrize(
    ("changes", "bits"),
    [({"block_out": 2}, 64), ({}, 128), ({"block_out": 8}, 256), ({"block_out": 16}, 256)],
)
def test_a_beat_of_narrow_values_fills_at_most_as_many_bits_as_it_widens_to(changes, bits):
    config = TINY.with_changes(acc_buffer_bytes=SMALL.acc_buffer_bytes, **changes)
    assert feature(config, "loader", "extended") == bits


def test_accumulators_with_one_port_have_no_shadow_and_pay_for_the_slots_that_are_taken():
    single_port, dual_port = (TINY.with_changes(acc_ports=ports) for ports in (1, 2))
    names = [{part.name for part in components(config)} for config in (single_port, dual_port)]
    assert names[1] - names[0] == {"out_scratchpad"}
    features = (
        ("sequencer", "taken"),
        ("pipeline", "stored"),
        ("pipeline", "fetched"),
        ("store_unit", "taken"),
    )
    for kind, name in features:
        assert feature(single_port, kind, name) > feature(dual_port, kind, name) == 0
    for kind, name in (("pipeline", "forwarded"), ("store_unit", "lent")):
        assert feature(dual_port, kind, name) > feature(single_port, kind, name) == 0
    without = single_port.with_changes(alu_opcodes=())
    assert feature(without, "pipeline", "fetched") == feature(without, "sequencer", "sources") == 0


@pytest.mark.parametrize("kind", ["load_unit", "loader"])
@pytest.mark.parametrize(("extensions", "bits"), [((), 0), ((Extension.PAD_VALUE,), 64)])
def test_only_engines_that_pad_with_any_value_pay_for_it(kind, extensions, bits):
    assert feature(TINY.with_changes(extensions=extensions), kind, "pad_value") == bits


@pytest.mark.parametrize(("extensions", "others"), [((), 0), ((Extension.TABLE, Extension.RESIDUAL), 2)])
def test_the_guard_of_micro_ops_pays_for_each_memory_that_steps_do_not_read(extensions, others):
    requantises = (Extension.REQUANTISE,) if extensions else ()
    config = TINY.with_changes(extensions=requantises + extensions)
    assert feature(config, "uop_guard", "others") == others
    assert feature(config, "uop_guard", "uop") == config.index_bits(MemoryType.UOP) == 9


if __name__ == "__main__":
    write(FILE, {config.name: features_of(config) for config in CONFIGS})

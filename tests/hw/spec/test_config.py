"""Configurations: what is refused and how, digests, files, settings."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from generators.programs import random_config

from vdla.hw.spec import files, vta_json
from vdla.hw.spec.config import AcceleratorConfig, _check_parameter, parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import DEFAULT, PRESETS, SMALL, TINY, VTA
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.spec.window import Window

REFUSED = [
    ({"batch": 3}, "batch = 3 is not a power of two; the nearest are 2 and 4"),
    ({"inp_bits": 5}, "inp_bits = 5 is none of 2, 4, 8"),
    ({"bus_bits": 32}, "bus_bits = 32 is outside 64..512"),
    (
        {"axi_address_bits": 31},
        "axi_address_bits = 31 is outside 32..64; 0 means as many bits as DRAM addresses need",
    ),
    ({"axi_address_bits": 65}, "axi_address_bits = 65 is outside 0..64"),
    ({"gemm_stages": 0}, "gemm_stages = 0 is outside 1..8"),
    (
        {"requantise_lanes": 3},
        "requantise_lanes = 3 is not a power of two; the nearest are 2 and 4",
    ),
    ({"packed": 27}, "packed = 27 is none of 0, 18, 25"),
    ({"block_in": "16"}, "block_in = '16' is not a whole number"),
    ({"name": 5}, "name = 5 is not text"),
    ({"name": None}, "name = None is not text"),
    (
        {"wgt_buffer_bytes": 256},
        "wgt_buffer_bytes = 256 holds fewer than 2 elements of 256 bytes; it must be at least 512",
    ),
    ({"burst_bytes": 4096, "bus_bits": 64}, "burst_bytes = 4096 is outside 32..2048 for bus_bits = 64"),
    ({"burst_bytes": 32, "bus_bits": 512}, "burst_bytes = 32 is outside 64..4096 for bus_bits = 512"),
    ({"alu_opcodes": ("ADD", "XOR")}, "alu_opcodes holds 'XOR', which is none of MIN, MAX, ADD, SHR, MUL"),
    ({"alu_lanes": 3}, "alu_lanes = 3 is not a power of two; the nearest are 2 and 4"),
    ({"alu_opcodes": 5}, "alu_opcodes = 5 is not a list of AluOpcode names"),
    (
        {"extensions": ("warp",)},
        "extensions holds 'warp', which is none of pad_minimum, overwrite, requantise, pad_value, depthwise, "
        "table, residual, gather, acc_halves, feedback, depthwise_rows, narrow_weights, normalise",
    ),
    (
        {"block_in": 2, "inp_buffer_bytes": 1 << 23},
        "inp_buffer_bytes = 8388608 holds 4194304 elements of 2 bytes, and a scratchpad has at most 2097152; "
        "it must be at most 4194304",
    ),
    (
        {"inp_bits": 2, "block_in": 1},
        "one INP element is 2 bits, not whole bytes (batch = 1, block_in = 1, block_out = 16, "
        "inp_bits = 2, wgt_bits = 8): widen the block or the values",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(ConfigError) as caught:
        DEFAULT.with_changes(**changes)
    assert str(caught.value) == message


def test_presets_are_what_their_names_promise():
    assert (DEFAULT.batch, DEFAULT.block_in, DEFAULT.block_out) == (1, 16, 16)
    assert [
        DEFAULT.depth(memory) for memory in (MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC)
    ] == [8192, 2048, 1024, 2048]
    assert DEFAULT.with_changes(extensions=()).digest == VTA.digest
    without = {"extensions": set(DEFAULT.extensions) - {Extension.DEPTHWISE_ROWS, Extension.FEEDBACK}}
    assert DEFAULT.with_changes(wgt_buffer_bytes=32768, **without).digest == PRESETS["paper"].digest
    assert [PRESETS[name].macs_per_cycle for name in ("default", "small", "tiny")] == [256, 64, 16]


OTHER = AcceleratorConfig(
    batch=2,
    block_in=8,
    block_out=8,
    inp_bits=4,
    wgt_bits=4,
    acc_bits=16,
    uop_buffer_bytes=4096,
    inp_buffer_bytes=4096,
    wgt_buffer_bytes=4096,
    acc_buffer_bytes=4096,
    load_queue_depth=9,
    compute_queue_depth=9,
    store_queue_depth=9,
    token_depth=9,
    bus_bits=128,
    burst_bytes=512,
    max_requests=9,
    axi_address_bits=40,
    gemm_stages=5,
    packed=18,
    requantise_lanes=2,
    alu_lanes=1,
    alu_stages=2,
    acc_ports=1,
    alu_opcodes=(),
    table_buffer_bytes=1024,
    res_buffer_bytes=1024,
    extensions=("pad_minimum", "requantise", "table", "residual"),
)
"""Each parameter has another value than the default."""


def test_digest_tells_hardware_apart_and_ignores_the_name():
    assert DEFAULT.with_changes(name="other").digest == DEFAULT.digest
    small = AcceleratorConfig(
        uop_buffer_bytes=8192,
        inp_buffer_bytes=8192,
        wgt_buffer_bytes=8192,
        acc_buffer_bytes=8192,
        extensions=("requantise", "table", "residual"),
    )
    digests = {
        small.with_changes(**{field.name: getattr(OTHER, field.name)}).digest
        for field in fields(OTHER)
        if field.name != "name"
    }
    assert len(digests) == len(fields(OTHER)) - 1
    assert small.digest not in digests


def test_the_size_of_a_memory_that_is_not_there_tells_nothing_apart():
    for name in ("table_buffer_bytes", "res_buffer_bytes"):
        assert TINY.with_changes(**{name: 1024}).digest == TINY.digest
        assert DEFAULT.with_changes(**{name: 1024}).digest != DEFAULT.digest


@pytest.mark.parametrize(
    "changes",
    [{"alu_lanes": 16}, {"alu_lanes": 64}, {"requantise_lanes": 8}, {"requantise_lanes": 128}],
    ids=str,
)
def test_as_many_lanes_as_there_are_values_are_all_lanes(changes):
    assert DEFAULT.with_changes(**changes).digest == DEFAULT.digest


def test_a_single_column_has_nothing_to_pack():
    column = DEFAULT.with_changes(block_out=1)
    assert column.with_changes(packed=18).digest == column.digest


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"requantise_lanes": 2}, 2),
        ({"requantise_lanes": 1, "inp_bits": 4}, 2),  # a byte at least
        ({"requantise_lanes": 1, "inp_bits": 2}, 4),
        ({"requantise_lanes": 1, "extensions": ()}, 8),  # nothing is requantised
    ],
)
def test_a_read_of_the_store_unit_gives_whole_bytes_and_at_most_the_lanes(changes, values):
    config = DEFAULT.with_changes(**changes)
    assert config.values_per_store_read == values
    assert config.store_read_bytes * 8 == values * config.out_bits


@pytest.mark.parametrize(
    "config", [*PRESETS.values(), *(random_config(seed) for seed in range(5))], ids=lambda config: config.name
)
def test_toml_reads_back_equal(config):
    assert files.from_toml(files.to_toml(config)) == config


@pytest.mark.parametrize(
    "config", [VTA, VTA.with_changes(block_in=8, inp_buffer_bytes=1 << 14, wgt_buffer_bytes=1 << 17)]
)
def test_vta_json_reads_back_equal(config):
    assert vta_json.from_vta_json(vta_json.to_vta_json(config)).digest == config.digest


def test_vta_json_as_vta_ships_it():
    text = json.dumps(
        {
            "TARGET": "pynq",
            "HW_VER": "0.0.2",
            "LOG_INP_WIDTH": 3,
            "LOG_WGT_WIDTH": 3,
            "LOG_ACC_WIDTH": 5,
            "LOG_BATCH": 0,
            "LOG_BLOCK": 4,
            "LOG_UOP_BUFF_SIZE": 15,
            "LOG_INP_BUFF_SIZE": 15,
            "LOG_WGT_BUFF_SIZE": 18,
            "LOG_ACC_BUFF_SIZE": 17,
        }
    )
    assert vta_json.from_vta_json(text).digest == VTA.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch = 3", "f: batch = 3 is not a power of two; the nearest are 2 and 4"),
        ("batch = ", "f is not TOML: Invalid value (at end of document)"),
        ("bacth = 1", "f: configuration parameter 'bacth' is unknown; there are "),
    ],
)
def test_bad_toml_names_the_file(text, message):
    with pytest.raises(ConfigError) as caught:
        files.from_toml(text, "f")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"LOG_BATCH": "x"}', "f: LOG_BATCH = 'x' is not a whole number in 0..30"),
        ('{"BATCH": 1}', "f: key 'BATCH' is unknown; delete or correct it; there are LOG_BATCH"),
        ("[1]", "f holds [1], which is not a JSON object; write one JSON object"),
    ],
)
def test_bad_json_names_the_file(text, message):
    with pytest.raises(ConfigError) as caught:
        vta_json.from_vta_json(text, "f")
    assert str(caught.value).startswith(message)


def test_missing_and_unknown_files_are_named(tmp_path):
    for name in ("nothing", str(tmp_path / "absent.toml")):
        with pytest.raises(ConfigError) as caught:
            files.load(name)
        assert name in str(caught.value)


def test_settings_change_parameters_together():
    changed = files.apply_settings(
        DEFAULT,
        [
            "block_in=32",
            "inp_buffer_bytes=64KiB",
            "wgt_buffer_bytes=0x80000",
            "alu_opcodes=min,MAX",
            "extensions=none",
        ],
    )
    assert changed.inp_buffer_bytes == 65536
    assert [opcode.name for opcode in changed.alu_opcodes] == ["MIN", "MAX"]
    assert changed.extensions == ()
    for setting in ("batch", "foo=1", "batch=x"):
        with pytest.raises(ConfigError):
            files.apply_settings(DEFAULT, [setting])


def extensions_of(before: AcceleratorConfig, *settings: str) -> set[str]:
    return {str(extension) for extension in files.apply_settings(before, settings).extensions}


def test_a_setting_adds_to_a_list_and_takes_from_it():
    initial = {str(extension) for extension in SMALL.extensions}
    assert "table" not in initial
    assert extensions_of(SMALL, "extensions=+table") == initial | {"table"}
    assert extensions_of(SMALL, "extensions= +table , -overwrite") == (initial | {"table"}) - {"overwrite"}
    assert extensions_of(SMALL, "extensions=+table", "extensions=+residual") == initial | {
        "table",
        "residual",
    }
    assert extensions_of(SMALL, "extensions=+requantise") == initial
    assert extensions_of(DEFAULT, "extensions=-table") == {
        str(extension) for extension in DEFAULT.extensions
    } - {"table"}
    less = files.apply_settings(DEFAULT, ["alu_opcodes=-mul"])
    assert [opcode.name for opcode in less.alu_opcodes] == ["MIN", "MAX", "ADD", "SHR"]


WRONG_CHANGES = {
    "extensions=-table": "extensions = '-table' takes 'table' away, which is not there; there are pad_minimum, ",
    "extensions=+table,gather": "extensions = '+table,gather' changes the list by + and -, and names 'gather' "
    "without; write + or - before each, or before none",
    "extensions=+warp": "extensions holds 'warp', which is none of pad_minimum, ",
    "extensions=-requantise,+table": "extensions holds table without requantise, on whose results it works; ",
}


@pytest.mark.parametrize("setting", WRONG_CHANGES)
def test_a_change_of_a_list_that_cannot_be_says_why(setting):
    with pytest.raises(ConfigError) as error:
        files.apply_settings(SMALL, [setting])
    assert WRONG_CHANGES[setting] in str(error.value)


NARROW = AcceleratorConfig(
    batch=2, block_in=8, block_out=4, inp_bits=4, wgt_bits=2, acc_bits=16, bus_bits=128
)


@pytest.mark.parametrize("config", [*PRESETS.values(), NARROW], ids=lambda config: config.name)
def test_elements_are_rows_of_values_and_fill_their_scratchpads(config):
    shapes = {
        MemoryType.INP: (config.batch * config.block_in, config.inp_bits, config.inp_buffer_bytes),
        MemoryType.WGT: (config.block_out * config.block_in, config.wgt_bits, config.wgt_buffer_bytes),
        MemoryType.ACC: (config.batch * config.block_out, config.acc_bits, config.acc_buffer_bytes),
        MemoryType.TABLE: (4, 8, config.table_buffer_bytes),
        MemoryType.RES: (config.batch * config.block_out, config.inp_bits, config.res_buffer_bytes),
    }
    for memory, (values, bits, buffer) in shapes.items():
        size = values * bits // 8
        assert (config.values(memory), config.value_bits(memory)) == (values, bits)
        assert (config.element_bits(memory), config.element_bytes(memory)) == (values * bits, size)
        assert config.depth(memory) == buffer // size == 1 << config.index_bits(memory)
        assert config.least_value(memory) == -(2 ** (bits - 1))
        assert config.pad_value(memory, -1) == -1
        assert config.pad_value(memory, 1 << bits - 1) == config.least_value(memory)
    for memory in (MemoryType.OUT, MemoryType.ACC_8BIT):
        assert config.element_bytes(memory) == config.element_bytes(MemoryType.RES)
        assert config.depth(memory) == config.depth(MemoryType.ACC)
        assert config.least_value(memory) == -(2 ** (config.inp_bits - 1))
    assert config.depth(MemoryType.UOP) == config.uop_buffer_bytes // config.element_bytes(MemoryType.UOP)
    assert (config.least_value(MemoryType.UOP), config.pad_value(MemoryType.UOP, 5)) == (0, 0)


@pytest.mark.parametrize("config", [*PRESETS.values(), NARROW], ids=lambda config: config.name)
def test_addresses_reach_every_element_and_are_no_wider(config):
    widest = max(map(config.element_bytes, MemoryType))
    reach = (1 << 32) * widest
    assert reach <= 1 << config.address_bits < 2 * reach
    assert config.axi_address_width == (config.axi_address_bits or config.address_bits)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (256, 8, 32, 0, 8, 1)),
        ({"packed": 18}, (256, 8, 32, 18, 8, 1)),
        ({"packed": 18, "block_out": 2, "inp_bits": 4, "block_in": 4}, (8, 8, 32, 18, 2, 1)),
        ({"packed": 25, "block_out": 1}, (16, 8, 32, 0, 1, 1)),
        ({"bus_bits": 128, "burst_bytes": 64}, (256, 16, 4, 0, 16, 1)),
        ({"alu_lanes": 4}, (256, 8, 32, 0, 8, 4)),
        ({"alu_lanes": 8, "alu_opcodes": ()}, (256, 8, 32, 0, 8, 1)),
        ({"alu_lanes": 32}, (256, 8, 32, 0, 8, 1)),
        ({"batch": 2}, (512, 8, 32, 0, 8, 1)),
    ],
    ids=str,
)
def test_what_follows_from_parameters(changes, expected):
    """Multiply-accumulates of a cycle, bytes of a beat, beats of a burst, bits of multipliers for two columns,
    values of a read of the store unit, pieces of an ALU step."""
    config = AcceleratorConfig(**changes)
    assert (
        config.macs_per_cycle,
        config.bus_bytes,
        config.burst_beats,
        config.packed_bits,
        config.values_per_store_read,
        config.alu_pieces,
    ) == expected


def test_lists_may_be_text_with_commas_or_spaces_in_any_order():
    expected = ["MIN", "SHR"]
    for value in ("shr,min", "SHR MIN", "shr , min", ["SHR", "min", "MIN"], ("min", "shr")):
        assert [opcode.name for opcode in DEFAULT.with_changes(alu_opcodes=value).alu_opcodes] == expected


PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text().partition("## Presets")[0]
ALLOWED = dict(re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*\d[^|]*) \|", PAGE, re.MULTILINE))
METADATA = {field.name: field.metadata for field in fields(AcceleratorConfig)}


def is_taken(name: str, value: int) -> bool:
    try:
        _check_parameter(name, value, METADATA[name])
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("name", ALLOWED)
def test_a_parameter_takes_what_the_page_allows_and_nothing_else(name):
    text = ALLOWED[name]
    zero, text = text.startswith("0, or "), text.removeprefix("0, or ")
    bounds = re.match(r"(\d+)\.\.(\d+)", text)
    if bounds is None:
        allowed = {int(word) for word in text.split(", ")}
        candidates = {*range(-1, max(allowed) + 2)}
    else:
        low, high = map(int, bounds.groups())
        powers = {1 << place for place in range(32)}
        near = {low - 1, low, low + 1, high - 1, high, high + 1, 2 * high, 3, 0, -1} | powers
        candidates = near
        within = {number for number in near if low <= number <= high}
        allowed = (within & powers if text.endswith("a power of two") else within) | ({0} if zero else set())
    assert {number for number in candidates if is_taken(name, number)} == allowed


def test_the_page_has_every_parameter_that_is_a_number():
    assert {*ALLOWED} == {name for name, limits in METADATA.items() if "low" in limits}


@pytest.mark.parametrize(
    ("block_in", "block_out", "has"),
    [(8, 8, True), (16, 16, True), (4, 4, False), (8, 16, False), (16, 8, False)],
)
def test_depthwise_needs_square_blocks_of_eight_and_other_extensions_do_not(block_in, block_out, has):
    config = PRESETS["paper"].with_changes(block_in=block_in, block_out=block_out)
    wide = config.with_changes(extensions=(*config.extensions, Extension.DEPTHWISE_ROWS))
    assert [wide.has(extension) for extension in wide.extensions] == [
        has or extension not in (Extension.DEPTHWISE, Extension.DEPTHWISE_ROWS)
        for extension in wide.extensions
    ]
    none = config.with_changes(extensions=())
    assert not any(none.has(extension) for extension in Extension)


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({}, Window(3, 5, 1)),
        ({"packed": 18}, Window(2, 3, 2)),
        ({"block_in": 8, "block_out": 8}, Window(2, 3, 1)),
        ({"block_in": 8, "block_out": 8, "packed": 25}, Window(1, 3, 2)),
        ({"block_in": 32, "block_out": 32}, Window(4, 5, 1)),
        ({"block_in": 32, "block_out": 32, "packed": 18}, Window(3, 5, 2)),
        ({"inp_buffer_bytes": 64}, Window(1, 3, 2)),
        ({"extensions": (Extension.DEPTHWISE,)}, Window(1, 3, 2)),
    ],
)
def test_an_array_sums_the_largest_window_that_it_has_inputs_for(changes, window):
    config = DEFAULT.with_changes(**changes)
    assert config.window == window
    assert config.has(Extension.DEPTHWISE_ROWS) == (window.rows > 1)
    assert config.operand_stages == config.gemm_stages + (window.rows > 1)
    assert window.inputs <= config.block_in


@pytest.mark.parametrize(
    ("wgt_bits", "block_in", "block_out", "most"),
    [(8, 16, 16, 2), (4, 16, 16, 1), (2, 16, 16, 0), (8, 1, 1, 0), (8, 2, 1, 1), (4, 2, 2, 1), (8, 2, 2, 2)],
)
def test_weights_are_halved_down_to_two_bits_and_elements_down_to_a_byte(wgt_bits, block_in, block_out, most):
    changes = {"wgt_bits": wgt_bits, "block_in": block_in, "block_out": block_out}
    plain = DEFAULT.with_changes(**changes)
    config = plain.with_changes(extensions=(*plain.extensions, Extension.NARROW_WEIGHTS))
    assert config.has(Extension.NARROW_WEIGHTS) == (most > 0)
    assert (config.digest == plain.digest) == (most == 0)
    assert config.halvings(MemoryType.WGT) == range(most + 1)
    assert config.halvings(MemoryType.INP) == plain.halvings(MemoryType.WGT) == range(1)
    for halvings in config.halvings(MemoryType.WGT):
        bits = wgt_bits // 2**halvings
        assert config.value_bits(MemoryType.WGT, halvings) == bits
        assert config.element_bytes(MemoryType.WGT, halvings) == block_in * block_out * bits // 8 > 0
        assert config.least_value(MemoryType.WGT, halvings) == -(2 ** (bits - 1))
    assert config.element_bytes(MemoryType.INP, 1) == config.element_bytes(MemoryType.INP)


def test_no_preset_has_narrow_weights():
    assert not any(config.has(Extension.NARROW_WEIGHTS) for config in PRESETS.values())


@pytest.mark.parametrize(("block_in", "block_out", "has"), [(4, 4, True), (1, 1, True), (8, 16, False)])
def test_feedback_needs_inputs_of_the_shape_of_outputs(block_in, block_out, has):
    blocks = {"block_in": block_in, "block_out": block_out}
    config, without = (PRESETS[name].with_changes(**blocks) for name in ("default", "paper"))
    fed = without.with_changes(extensions=(*without.extensions, Extension.FEEDBACK))
    assert config.has(Extension.FEEDBACK) is fed.has(Extension.FEEDBACK) is has
    assert (fed.digest == without.digest) is not has
    assert not without.has(Extension.FEEDBACK)


def test_parameters_are_plain_values_in_the_order_of_their_declaration():
    plain = parameters(SMALL)
    assert [*plain] == [field.name for field in fields(SMALL) if field.name != "name"]
    assert plain["extensions"] == ["pad_minimum", "overwrite", "requantise"]
    assert plain["alu_opcodes"] == ["MIN", "MAX", "ADD", "SHR", "MUL"]
    assert {type(value) for value in plain.values()} == {int, list}
    assert json.loads(json.dumps(plain)) == plain

"""`vdla config --from-vta`: what is imported, what is reported as ignored, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.commands import done, invoke, refused
from vdla.hw.spec.config import parameters
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.target_files import load
from vdla.hw.spec.vta_json import (
    BLOCKS,
    VTA_DERIVED,
    VTA_IGNORED,
    VTA_KEYS,
    VtaImport,
    from_vta_json,
    read_vta,
)
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.vectors import load_vector, replay

VECTORS = Path(__file__).parents[1] / "vectors" / "vta"
DEFAULT = {
    "TARGET": "sim",
    "HW_VER": "0.0.1",
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
"""VTA's config/vta_config.json."""
OLDER = {key: value for key, value in DEFAULT.items() if key != "LOG_BLOCK"} | {
    "TARGET": "de10-nano",
    "HW_FREQ": 100,
    "HW_CLK_TARGET": 7,
    "HW_VER": "0.0.0",
    "LOG_OUT_WIDTH": 3,
    "LOG_BLOCK_IN": 4,
    "LOG_BLOCK_OUT": 4,
}
"""The file of the first versions of VTA."""
SAVED = DEFAULT | {"LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 4, "LOG_OUT_WIDTH": 3, "LOG_OUT_BUFF_SIZE": 15}
"""The file that VTA's `--save-cfg-json` writes, with the values that it derives."""


def without(*keys: str) -> dict[str, object]:
    return {key: value for key, value in DEFAULT.items() if key not in keys}


def read(path: Path) -> VtaImport:
    return read_vta(path.read_text(), str(path))


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def writer(values: object) -> Path:
        path = tmp_path / "vta_config.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values))
        return path

    return writer


@pytest.mark.parametrize("values", [DEFAULT, OLDER, SAVED, DEFAULT | {"ACC_DEP_DISTANCE": 3}])
def test_the_default_of_every_version_of_vta_is_the_preset(write, values):
    imported = read(write(values))
    assert parameters(imported.config) == parameters(VTA)
    assert imported.config.digest == VTA.digest
    assert imported.config.name == "vta_config"


@pytest.mark.parametrize(
    ("key", "exponent"), [(key, DEFAULT.get(key, 4) - 1 if key != "LOG_BATCH" else 1) for key in VTA_KEYS]
)
def test_a_key_sets_its_parameter_and_no_other(write, key, exponent):
    blocks = dict.fromkeys(BLOCKS, 4)
    config = read(write(without("LOG_BLOCK") | blocks | {key: exponent})).config
    assert parameters(config) == parameters(VTA) | {VTA_KEYS[key]: 1 << exponent}


def test_a_batch_and_a_block_are_imported(write):
    config = read(write(DEFAULT | {"LOG_BATCH": 1, "LOG_BLOCK": 3})).config
    assert (config.batch, config.block_in, config.block_out) == (2, 8, 8)
    assert config == from_vta_json(json.dumps(DEFAULT | {"LOG_BATCH": 1, "LOG_BLOCK": 3}), "vta_config.json")


def test_every_key_without_a_meaning_is_reported_with_the_reason(write):
    path = write(DEFAULT | dict.fromkeys(VTA_IGNORED, 1))
    printed = done("config", "--from-vta", path, "--json")
    assert printed.stderr.splitlines() == [
        f"{path}: {key} = 1 is ignored: {reason}" for key, reason in VTA_IGNORED.items()
    ]
    assert json.loads(printed.stdout)["digest"] == VTA.digest


def test_nothing_is_reported_of_a_file_without_such_keys(write):
    assert done("config", "--from-vta", write(without("TARGET", "HW_VER"))).stderr == ""


def test_the_import_is_printed_and_written_as_the_kit_writes_a_configuration(write, tmp_path):
    path, written = write(DEFAULT | {"LOG_BLOCK": 5}), tmp_path / "mine.toml"
    printed = done("config", "--from-vta", path, "--set", "memory.latency=100", "--json", "-o", written)
    values = json.loads(printed.stdout)
    assert (values["name"], values["parameters"]["block_in"]) == ("vta_config", 32)
    assert values["memory"]["latency"] == 100
    target = load(written)
    assert target.config == VTA.with_changes(name="vta_config", block_in=32, block_out=32)
    assert done("config", written, "--json").stdout == printed.stdout


def test_a_setting_changes_the_import(write):
    values = json.loads(done("config", "--from-vta", write(DEFAULT), "--set", "batch=4", "--json").stdout)
    assert values["parameters"] == json.loads(json.dumps(parameters(VTA))) | {"batch": 4}


KNOWN = ", ".join((*VTA_KEYS, "LOG_BLOCK", *VTA_DERIVED, *VTA_IGNORED))
FORM = "write one JSON object, as VTA's config/vta_config.json does"
REFUSED = {
    "text": ("no json", f" is not JSON: Expecting value: line 1 column 1 (char 0); {FORM}"),
    "list": ([3, 3], f" holds [3, 3], which is not a JSON object; {FORM}"),
    "nested": ("[" * 100_000, f" is nested too deeply for a vta_config.json; {FORM}"),
    "twice": (
        '{"LOG_BATCH": 0, "LOG_BATCH": 1}',
        ": key 'LOG_BATCH' occurs twice, as 0 and as 1; delete one of the two",
    ),
    "unknown key": (
        DEFAULT | {"LOG_BUS_WIDTH": 6},
        f": key 'LOG_BUS_WIDTH' is unknown; delete or correct it; there are {KNOWN}",
    ),
    "missing key": (
        without("LOG_ACC_WIDTH"),
        ": LOG_ACC_WIDTH is missing; add it, because the kit assumes no sizes",
    ),
    "missing keys": (
        without("LOG_BLOCK", "LOG_BATCH"),
        ": LOG_BATCH, LOG_BLOCK_IN, LOG_BLOCK_OUT are missing; add them, because the kit assumes no sizes; "
        "LOG_BLOCK stands for both blocks",
    ),
    "one block": (
        without("LOG_BLOCK") | {"LOG_BLOCK_IN": 4},
        ": LOG_BLOCK_OUT is missing; add it, because the kit assumes no sizes",
    ),
    "real number": (
        DEFAULT | {"LOG_BLOCK": 4.0},
        ": LOG_BLOCK = 4.0 is not a whole number in 0..30; write the base-2 logarithm of the size",
    ),
    "string": (
        DEFAULT | {"LOG_BATCH": "0"},
        ": LOG_BATCH = '0' is not a whole number in 0..30; write the base-2 logarithm of the size",
    ),
    "boolean": (
        DEFAULT | {"LOG_BATCH": True},
        ": LOG_BATCH = True is not a whole number in 0..30; write the base-2 logarithm of the size",
    ),
    "bytes": (
        DEFAULT | {"LOG_INP_BUFF_SIZE": 32768},
        ": LOG_INP_BUFF_SIZE = 32768 is not a whole number in 0..30; write the base-2 logarithm of the size",
    ),
    "negative": (
        DEFAULT | {"LOG_BATCH": -1},
        ": LOG_BATCH = -1 is not a whole number in 0..30; write the base-2 logarithm of the size",
    ),
    "one bit": (
        DEFAULT | {"LOG_WGT_WIDTH": 0},
        ": LOG_WGT_WIDTH = 0 means wgt_bits = 1, which the kit cannot build; LOG_WGT_WIDTH may be 1, 2 or 3",
    ),
    "wide input": (
        DEFAULT | {"LOG_INP_WIDTH": 4},
        ": LOG_INP_WIDTH = 4 means inp_bits = 16, which the kit cannot build; LOG_INP_WIDTH may be 1, 2 or 3",
    ),
    "narrow accumulator": (
        DEFAULT | {"LOG_ACC_WIDTH": 3},
        ": LOG_ACC_WIDTH = 3 means acc_bits = 8, which the kit cannot build; LOG_ACC_WIDTH may be 4 or 5",
    ),
    "large block": (
        DEFAULT | {"LOG_BLOCK": 9},
        ": LOG_BLOCK_IN = 9 means block_in = 512, which the kit cannot build; LOG_BLOCK_IN may be 0..8",
    ),
    "small memory": (
        DEFAULT | {"LOG_WGT_BUFF_SIZE": 8},
        ": wgt_buffer_bytes = 256 holds fewer than 2 elements of 256 bytes; it must be at least 512",
    ),
    "blocks": (
        SAVED | {"LOG_BLOCK_OUT": 5},
        ": LOG_BLOCK_OUT = 5 contradicts LOG_BLOCK = 4, which stands for LOG_BLOCK_IN and LOG_BLOCK_OUT; delete "
        "LOG_BLOCK or make them equal",
    ),
    "output width": (
        SAVED | {"LOG_OUT_WIDTH": 5},
        ": LOG_OUT_WIDTH = 5 differs from LOG_INP_WIDTH = 3, the only value that VTA and the kit build; delete "
        "LOG_OUT_WIDTH or correct it",
    ),
    "output memory": (
        SAVED | {"LOG_OUT_BUFF_SIZE": 17},
        ": LOG_OUT_BUFF_SIZE = 17 differs from LOG_ACC_BUFF_SIZE + LOG_INP_WIDTH - LOG_ACC_WIDTH = 15, the only "
        "value that VTA and the kit build; delete LOG_OUT_BUFF_SIZE or correct it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with_key_value_limits_and_remedy(write, case):
    values, message = REFUSED[case]
    path = write(values)
    assert refused("config", "--from-vta", path) == f"{path}{message}"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert refused("config", "--from-vta", tmp_path / "no.json").startswith(
        f"{tmp_path / 'no.json'} cannot be read"
    )


def test_a_second_name_of_a_configuration_is_refused(write):
    path = write(DEFAULT)
    answer = invoke("config", "tiny", "--from-vta", path)
    assert answer.exit_code == 2
    assert f"tiny and --from-vta {path} both name a configuration; give one" in answer.stderr


def test_long_values_are_cut(write):
    with pytest.raises(ConfigError) as caught:
        read(write(DEFAULT | {"LOG_BATCH": "x" * 5000}))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("device", ["functional", "cycle"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm_vt2_d", {}),
        (
            "gemm_vt2_b8",
            {
                "LOG_BLOCK": 3,
                "LOG_UOP_BUFF_SIZE": 13,
                "LOG_INP_BUFF_SIZE": 14,
                "LOG_WGT_BUFF_SIZE": 15,
                "LOG_ACC_BUFF_SIZE": 15,
            },
        ),
        ("conv1x1_bt2", {"LOG_BATCH": 1, "LOG_UOP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 17}),
    ],
)
def test_a_program_of_vta_runs_on_the_imported_configuration(write, name, sizes, device):
    vector = load_vector(VECTORS / f"{name}.npz")
    config = read(write(DEFAULT | sizes)).config
    assert config.digest == vector.config.digest
    assert replay(replace(vector, config=config), device_factory(device)).conforms

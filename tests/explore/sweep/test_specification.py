"""Specifications: what they hold, and the errors of invalid specifications."""

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.specification import (
    Base,
    Conv,
    Range,
    Specification,
    Tune,
    WorkloadTable,
    from_values,
    read,
)

LAYER = {"conv": {"size": 8, "channels": 16, "outputs": 16}}
GOOD = {"parameters": {"block_in": [8, 16]}, "workloads": [LAYER]}


def test_a_file_is_read_with_its_defaults(tmp_path):
    (tmp_path / "s.toml").write_text(
        "constraints = ['block_in > 4']\n[parameters]\nblock_in = [8]\nmemory.latency = [1, 2]\n"
        "[[workloads]]\nconv = {size = 8, channels = 16, outputs = 32, kernel = 1}\n"
    )
    specification = read(tmp_path / "s.toml")
    assert specification.parameters == {"block_in": [8], "memory.latency": [1, 2]}
    assert specification.workloads[0].conv == Conv(channels=16, outputs=32, size=8, kernel=1)
    assert (specification.base.name, specification.budget, specification.family) == ("default", "all", "ecp5")


def test_quoted_and_nested_names_mean_the_same():
    nested = from_values(GOOD | {"parameters": {"memory": {"latency": [1]}}})
    assert nested == from_values(GOOD | {"parameters": {"memory.latency": [1]}})


def test_a_specification_is_equal_after_json():
    specification = from_values(GOOD | {"objectives": ["lut", "cycles"], "budget": 7})
    assert from_values(specification.to_json()) == specification


def test_tuning_is_off_without_its_table_and_has_defaults_with_it():
    assert from_values(GOOD).tune is None
    specification = from_values(GOOD | {"tune": {}})
    assert specification.tune == Tune(trials=16, explorer="model", seed=0, log=None)
    assert specification.to_json()["tune"] == {}
    assert from_values(specification.to_json()) == specification


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paramters": {}}, "table or key 'paramters' is unknown; did you mean parameters?"),
        ({"base": {"confg": "tiny"}}, "key of base 'confg' is unknown; did you mean config?"),
        ({"workloads": [{"modle": "x"}]}, "key of workloads[0] 'modle' is unknown; did you mean model?"),
        (
            {"workloads": [{"conv": {"chanels": 3}}]},
            "key of workloads[0].conv 'chanels' is unknown; did you mean channels?",
        ),
        ({"workloads": []}, "workloads is empty; give at least one [[workloads]]"),
        ({"workloads": [{}]}, "workloads[0] has none of them; it takes exactly one of model, conv and suite"),
        ({"workloads": [LAYER | {"model": "x"}]}, "workloads[0] has model and conv"),
        (
            {"workloads": [{"conv": {"channels": 0, "outputs": 1}}]},
            "workloads[0].conv.channels = 0 is not allowed; it takes a whole number of at least 1",
        ),
        ({"budget": 0}, "budget"),
        ({"objectives": ["cyles"]}, "objective 'cyles' is unknown; did you mean cycles?"),
        ({"objectives": []}, "objectives is empty"),
        ({"base": {"config": "tiny", "target": "tiny"}}, "base.config and base.target name one record"),
        ({"parameters": {"constraints": ["1"]}}, "write it before the first table of the file"),
        ({"tune": {"trails": 4}}, "key of tune 'trails' is unknown; did you mean trials?"),
        ({"tune": {"trials": 0}}, "tune.trials = 0 is not allowed; it takes a whole number of at least 1"),
        ({"tune": {"trials": "many"}}, "tune.trials = 'many' is not allowed; it takes a whole number"),
        ({"tune": {"seed": -1}}, "tune.seed = -1 is not allowed; it takes a whole number of at least 0"),
        ({"tune": {"log": 3}}, "tune.log = 3 is not allowed; it takes text"),
        ({"tune": {"explorer": "modell"}}, "tune.explorer 'modell' is unknown; did you mean model?"),
        ({"tune": 16}, "tune = 16 is not allowed; it takes a table"),
        ({"parameters": [1]}, "parameters = [1] is not allowed; it takes a table"),
    ],
)
def test_a_wrong_specification_is_one_line(changes, message):
    with pytest.raises(SweepError) as caught:
        from_values(GOOD | changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not TOML"),
        (f"a = {'9' * 5000}", "is not TOML: a number has more than 4,300 digits$"),
        ("x = 1", "'x' is unknown"),
    ],
)
def test_errors_name_the_file(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SweepError, match=message) as caught:
        read(tmp_path / "s.toml")
    assert str(caught.value).startswith(str(tmp_path / "s.toml"))


@pytest.mark.parametrize("kind", [Base, Range, Conv, WorkloadTable, Tune, Specification])
def test_tables_cannot_be_changed_and_take_no_other_keys(kind):
    struct_config = kind.__struct_config__
    assert struct_config.frozen
    assert struct_config.forbid_unknown_fields
    assert struct_config.omit_defaults

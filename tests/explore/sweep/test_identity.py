"""What `sweep.json` says: types are checked, and whatever is no number is refused in one line."""

import json

import pytest

from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.identity import IDENTITY, read_identity

LIMIT = {"name": "lut", "value": 30000.0, "least": False, "worst": 0.07, "designs": 5}
VALUES = {
    "specification": {"workloads": [{"name": "c"}]},
    "base": {"name": "tiny"},
    "parameters": ["block_in"],
    "limits": [LIMIT],
}


def test_an_identity_is_read_as_it_was_written(tmp_path):
    (tmp_path / IDENTITY).write_text(json.dumps(VALUES))
    assert read_identity(tmp_path) == VALUES


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"limits": float("nan")}, "it is no JSON"),
        ({"limits": [LIMIT | {"value": float("inf")}]}, "it is no JSON"),
        ({"limits": [LIMIT | {"value": 1e301}]}, "Expected `float` <= 1e+300 - at `limits[0].value`"),
        ({"limits": [{"name": "lut"}]}, "Object missing required field `value` - at `limits[0]`"),
        ({"parameters": "block_in"}, "Expected `array`, got `str` - at `parameters`"),
        ({"base": None}, "Expected `object`, got `null` - at `base`"),
    ],
)
def test_damage_is_refused_in_one_line(tmp_path, changes, reason):
    (tmp_path / IDENTITY).write_text(json.dumps(VALUES | changes))
    with pytest.raises(SweepError) as raised:
        read_identity(tmp_path)
    assert str(raised.value) == f"{tmp_path / IDENTITY} is damaged: {reason}; sweep into another folder"

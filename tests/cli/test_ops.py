"""`vdla ops`: the table of operators agrees with the code."""

import json

import pytest
from click.testing import CliRunner

from vdla.cli import main
from vdla.compiler.graph.integer_forms.rules import MOVES
from vdla.compiler.graph.integer_forms.site import CHANGE, PAIRED
from vdla.compiler.graph.onnx.survey import FOREIGN as OF_DOMAINS
from vdla.compiler.graph.onnx.survey import IMPORTERS
from vdla.compiler.lower.tables import FORMS, OPERATORS, RULES
from vdla.compiler.network.offload import CONFIGURATION
from vdla.compiler.network.support import (
    ACCELERATOR,
    COMMON,
    COMPILER,
    HOST,
    TABULATED,
    imported,
    offloaded,
    shared_conditions,
)
from vdla.runtime.host.evaluate import OPERATORS as ON_HOST

WIDTH = max(len(operator.op) for operator in imported())


def table() -> dict[str, tuple[str, str]]:
    return {operator.op: (operator.on, operator.condition) for operator in imported()}


def test_every_operator_that_is_imported_is_listed_once():
    names = [operator.op for operator in imported()]
    added = (f"{domain}.{op}".lstrip(".") for domain, operators in OF_DOMAINS.items() for op in operators)
    assert sorted(names) == sorted({*IMPORTERS, "Constant", *added})
    assert [operator.op for operator in offloaded()] == sorted(OPERATORS)


def test_every_lowering_states_its_conditions():
    assert set(RULES) == {*FORMS, "Relu", "Clip"}
    assert set(FORMS) - {CHANGE, PAIRED} <= set(table())
    assert all(operator.condition for operator in offloaded())


def test_conditions_are_the_rules_that_reasons_are_made_of():
    rows = table()
    for op, rules in RULES.items():
        if op == CHANGE:  # Add, Mul, Sub and others with constants
            continue
        conditions = [rule.takes for rule in rules if rule not in COMMON]
        name = "MatMul" if op == PAIRED else op
        assert op in (*MOVES, "DequantizeLinear") or all(text in rows[name][1] for text in conditions)
    assert all(rule.takes in shared_conditions() for rule in (*COMMON, *CONFIGURATION))
    for operator in offloaded():
        assert operator.condition.endswith("; ".join(rule.takes for rule in OPERATORS[operator.op].rules))


@pytest.mark.parametrize(
    ("op", "on"),
    [
        ("Conv", ACCELERATOR),
        ("Relu", ACCELERATOR),
        ("QLinearConv", ACCELERATOR),
        ("com.microsoft.QLinearAdd", ACCELERATOR),
        ("com.microsoft.QLinearSoftmax", ACCELERATOR),
        ("Concat", ACCELERATOR),
        ("Transpose", ACCELERATOR),
        ("Erf", ACCELERATOR),
        ("Softmax", ACCELERATOR),
        ("LogSoftmax", HOST),
        ("Dropout", COMPILER),
        ("Shape", COMPILER),
        ("BatchNormalization", ACCELERATOR),
    ],
)
def test_where_an_operator_runs(op, on):
    place, condition = table()[op]
    assert place == on
    assert bool(condition) is (op != "LogSoftmax")


def test_what_runs_on_the_host_is_there():
    others = {"CastLike", "Upsample"}  # which become Cast and Resize
    assert {op for op, (on, _) in table().items() if on == HOST and "." not in op} - others <= set(ON_HOST)
    assert {operator.op for operator in offloaded()} <= set(ON_HOST)


def test_it_prints_the_table_and_json():
    lines = CliRunner().invoke(main, ["ops"]).stdout.splitlines()
    assert lines[0].split() == ["operator", "on", "condition"]
    assert f"{'ArgMax':{WIDTH}}  host" in lines
    assert f"{'Abs':{WIDTH}}  accelerator  {TABULATED}" in lines
    printed = json.loads(CliRunner().invoke(main, ["ops", "--json"]).stdout)
    assert printed["onnx"][0] == {"op": "Abs", "on": "accelerator", "condition": TABULATED}
    assert [operator["op"] for operator in printed["integer"]] == sorted(OPERATORS)

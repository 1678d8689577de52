"""Operators of other domains: inputs and attributes are those that onnxruntime declares."""

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from vdla.compiler.graph.onnx.domains import MICROSOFT, OPERATORS
from vdla.compiler.graph.onnx.foreign import KINDS

DECLARED = {schema.name: schema for schema in runtime.get_all_operator_schema() if schema.domain == MICROSOFT}
ANY_NUMBER = "QLinearConcat"  # a tensor, a scale and a zero point for each operand
FEWER = {"QLinearGlobalAveragePool": (4, 5)}  # the zero point of the result may be left out
FURTHER = {"TransposeMatMul": {"transBatchA", "transBatchB"}}  # those of FusedMatMul, its later name
ATTRIBUTES = {"INT": int, "INTS": tuple, "FLOAT": float, "FLOATS": list, "STRING": str}


@pytest.mark.parametrize("op", [op for op in OPERATORS[MICROSOFT] if op != ANY_NUMBER])
def test_inputs_are_those_that_onnxruntime_declares(op):
    kind, schema = OPERATORS[MICROSOFT][op], DECLARED[op]
    assert kind.inputs == FEWER.get(op, (schema.min_input, schema.max_input))
    names = [one.name.lower() for one in schema.inputs]
    needed = {place for place, one in enumerate(schema.inputs) if one.option.name == "Single"}
    assert set(kind.required) <= needed
    assert all("zero_point" in names[place] for place in needed - set(kind.required)), names


def test_a_concatenation_has_three_inputs_for_each_operand():
    kind = OPERATORS[MICROSOFT][ANY_NUMBER]
    assert kind.inputs[0] == 2 + 3
    assert kind.inputs[1] > DECLARED[ANY_NUMBER].max_input
    assert kind.required == (0, 2, 3)  # the scale of the result, a tensor and its scale


@pytest.mark.parametrize("op", OPERATORS[MICROSOFT])
def test_attributes_are_those_that_onnxruntime_declares(op):
    declared = {name: ATTRIBUTES[one.type.name] for name, one in DECLARED[op].attributes.items()}
    kind = OPERATORS[MICROSOFT][op]
    further = dict.fromkeys(FURTHER.get(op, ()), int)
    assert dict(kind.attributes) == declared | further
    assert set(kind.attributes.values()) <= KINDS.keys()

"""The tables hold what the files of `vdla.compiler.lower` declare, and nothing else."""

from pathlib import Path

from vdla.compiler.graph.conversions import BOUNDS
from vdla.compiler.graph.integer_forms.lowering import IntegerForm
from vdla.compiler.graph.integer_forms.rules import AROUND
from vdla.compiler.lower import (
    activation_products,
    channelwise,
    elementwise,
    moves,
    normalisation,
    pooling,
    products,
    tables,
)
from vdla.compiler.network.placed import OperatorKind

FAMILIES = (activation_products, channelwise, elementwise, moves, normalisation, pooling, products)


def test_the_tables_are_the_declarations_of_all_files():
    files = {Path(str(family.__file__)).name for family in FAMILIES}
    assert files == {file.name for file in Path(str(tables.__file__)).parent.glob("*.py")} - {
        "__init__.py",
        "tables.py",
    }
    assert {
        op: form for family in FAMILIES for op, form in getattr(family, "FORMS", {}).items()
    } == tables.FORMS
    assert {op: kind for family in FAMILIES for op, kind in family.OPERATORS.items()} == tables.OPERATORS
    assert list(tables.OPERATORS) == sorted(tables.OPERATORS)
    assert all(isinstance(form, IntegerForm) for form in tables.FORMS.values())
    assert all(isinstance(kind, OperatorKind) for kind in tables.OPERATORS.values())


def test_rules_of_conversions_stand_between_those_of_operators():
    for op, form in tables.FORMS.items():
        assert tables.RULES[op] == (*form.first, *AROUND, *form.inside)
    assert tables.RULES.keys() - tables.FORMS.keys() == {*BOUNDS}

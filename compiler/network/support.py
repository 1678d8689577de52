"""The supported ONNX operators: where each runs, and under which conditions.

The conditions are generated from the rules by which the compiler decides.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from vdla.compiler.graph.integer_forms import prerequisites
from vdla.compiler.graph.integer_forms.normalisation import OF_ROWS
from vdla.compiler.graph.integer_forms.rules import AROUND, FUNCTION, FUNCTION_RULES, MOVES, RATIOS, ROW_RULES
from vdla.compiler.graph.integer_forms.site import PAIRED
from vdla.compiler.graph.onnx.read import OLDEST_OPSET
from vdla.compiler.graph.onnx.survey import FOREIGN as OF_DOMAINS
from vdla.compiler.graph.onnx.survey import IMPORTERS
from vdla.compiler.graph.passes.cleanup import ALWAYS
from vdla.compiler.graph.rewrites.channel_scales import CHANNEL_CONSTANT, CONVERTED
from vdla.compiler.graph.rewrites.conversions import SLOPES
from vdla.compiler.lower.tables import OPERATORS, RULES
from vdla.compiler.network.channels import FREE, MOVERS
from vdla.compiler.network.offload import CONFIGURATION
from vdla.compiler.network.views import VIEW_RULES, VIEWS
from vdla.compiler.rules import conditions
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host import elementwise

ACCELERATOR, HOST, COMPILER = "accelerator", "host", "compiler"
KNOWN = ("Constant", "Shape", "Size")
BECOMES = {
    **prerequisites.MEANINGS,
    "BatchNormalization": "Conv, or a part of the Conv, ConvTranspose or Gemm before it",
    prerequisites.DYNAMIC: "nothing, and the ConvInteger and MatMulInteger after it become Conv and MatMul",
    "GlobalMaxPool": "MaxPool",
    "ReduceMax": "MaxPool",
    "ReduceMean": "GlobalAveragePool or AveragePool, unless it is a part of a normalisation",
    "Sum": "several Add",
}
IN_INT8 = "moves int8 elements between DequantizeLinear and QuantizeLinear"
ALONE = "changes the scale between two conversions"
TABULATED = (
    f"{FUNCTION.takes} between conversions, which becomes a table, with the extension {Extension.TABLE}"
)
BETWEEN = "between DequantizeLinear and QuantizeLinear"
OTHER_KINDS = {"MatMul": (PAIRED,)}  # further forms of the same operator
COMMON = (*AROUND, RATIOS)  # rules for all operators with an integer form
NOTE = "<!-- Generated from the compiler by `make docs`. -->\n"


@dataclass(frozen=True, slots=True)
class Support:
    """A supported operator.

    Attributes:
        on: where it runs in a quantised network if the condition holds: "accelerator", "host", or "compiler"
            if nothing remains to run. If the condition does not hold, it runs on the host.
        condition: the condition; "" if it always holds.
    """

    op: str
    on: str
    condition: str = ""


def imported() -> list[Support]:
    """Return the supported ONNX operators, sorted."""
    names = {*IMPORTERS, *KNOWN}
    standard = [Support(op, *_where(op)) for op in names]
    added = [
        Support(f"{domain}.{op}" if domain else op, _where(kind.becomes)[0], f"it becomes {kind.becomes}")
        for domain, operators in OF_DOMAINS.items()
        for op, kind in operators.items()
    ]
    return sorted((*standard, *added), key=lambda row: row.op.rpartition(".")[2])


def _where(op: str) -> tuple[str, str]:
    if op in KNOWN:
        return COMPILER, "constant at compile time"
    if op in ALWAYS:
        return COMPILER, "removed"
    if op == prerequisites.PAD:
        return ACCELERATOR, conditions(prerequisites.RULES[op])
    if op in BECOMES:
        return ACCELERATOR, f"{conditions(prerequisites.RULES[op])}; it becomes {BECOMES[op]}"
    if op in VIEWS:
        views = f"{IN_INT8}; costs nothing with {conditions(VIEW_RULES)}"
        moves = [conditions(OPERATORS[op].rules)] if op in OPERATORS else []
        moves += [FREE] if op in MOVERS else []
        return (ACCELERATOR, "; or ".join((views, *moves))) if moves else (HOST, views)
    if op in MOVES:
        takes = [conditions(OPERATORS[op].rules)] if op in OPERATORS else []
        takes += [FREE] if op in MOVERS else []
        return (ACCELERATOR, f"{IN_INT8}; {'; or '.join(takes)}") if takes else (HOST, IN_INT8)
    if op in RULES:
        kinds = (op, *OTHER_KINDS.get(op, ()))
        listed = [conditions(rule for rule in RULES[kind] if rule not in COMMON) or ALONE for kind in kinds]
        return ACCELERATOR, "; or ".join((*listed, *((CHANNEL_CONSTANT,) if op in CONVERTED else ())))
    if op in OF_ROWS:
        kind = OPERATORS[OF_ROWS[op]]
        more = [rule for rule in ROW_RULES[op] if rule not in FUNCTION_RULES]
        return ACCELERATOR, f"{BETWEEN}; {conditions((*more, *kind.configuration, *kind.rules))}"
    if op in elementwise.OPERATORS:
        return ACCELERATOR, "; or ".join((TABULATED, *((SLOPES,) if op == "PRelu" else ())))
    return HOST, ""


def offloaded() -> list[Support]:
    """Return the integer operators of the accelerator, sorted, with the condition of each."""
    return [
        Support(op, ACCELERATOR, conditions((*kind.configuration, *kind.rules)))
        for op, kind in sorted(OPERATORS.items())
    ]


def to_json() -> dict[str, object]:
    """Return both tables as plain JSON values."""
    return {"onnx": [asdict(row) for row in imported()], "integer": [asdict(row) for row in offloaded()]}


def text() -> str:
    """Return both tables for a terminal."""
    rows = [
        ("operator", "on", "condition"),
        *((row.op, row.on, row.condition) for row in imported()),
        ("", "", ""),
        ("integer operator", "on", "condition"),
        *((row.op, row.on, row.condition) for row in offloaded()),
    ]
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    table = (f"{op:{first}}  {on:{second}}  {condition}".rstrip() for op, on, condition in rows)
    return "\n".join((*table, "", shared_conditions()))


def shared_conditions() -> str:
    """Return the conditions that apply to all operators, as lists."""
    return "\n".join(
        (
            "On the accelerator, every operator needs:\n",
            *(f"- {rule.takes}" for rule in COMMON),
            "\nEvery integer operator needs a configuration with:\n",
            *(f"- {rule.takes}" for rule in CONFIGURATION),
            "- scratchpads that hold a tile of it",
        )
    )


def page() -> str:
    """Return the page of the documentation."""
    return "".join(
        (
            NOTE,
            "# Operators\n",
            "The supported ONNX operators, for people who have a network. `vdla ops` prints these tables.\n\n"
            f"Models of operator sets from {OLDEST_OPSET} on can be imported. In a quantised network an\n"
            "operator runs on the accelerator if its condition holds, else on the host in int8 or float32.\n"
            "`vdla compile --layers` lists each operator on the host, with the condition that it breaks.\n"
            "Operators that ONNX defines as functions of listed operators, such as Attention, become these.\n"
            "Other operators run on the host by onnxruntime, with the extra `models`; without\n"
            f"it, a model that has one is refused before anything runs.\n\n{shared_conditions()}\n\n",
            *_table("operator", imported()),
            "\n## Integer operators of the accelerator\nThe compiler lowers quantised operators to these. "
            "`runtime/host/int8.py` defines their results,\nand the accelerator equals it bit for bit.\n\n",
            *_table("integer operator", offloaded()),
        )
    )


def _table(head: str, rows: list[Support]) -> Iterator[str]:
    yield f"| {head} | on | condition |\n|---|---|---|\n"
    yield from (f"| {row.op} | {row.on} | {row.condition} |\n" for row in rows)

"""Which ONNX operators are taken, where each runs and under which conditions; gathered from what imports,
lowers and offloads them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from vdla.compiler.graph.onnx.read import OLDEST_OPSET
from vdla.compiler.graph.onnx.survey import CONTRIBUTED, CONTRIBUTED_DOMAIN, IMPORTERS
from vdla.compiler.graph.passes.affine_to_conv import AFFINE
from vdla.compiler.graph.passes.expand_qlinear import MEANINGS
from vdla.compiler.graph.passes.remove_identity import ALWAYS
from vdla.compiler.graph.passes.to_integers import CONDITIONS, MOVES
from vdla.compiler.network.offload import OPERATORS
from vdla.compiler.network.partition import VIEWS

ACCELERATOR, HOST, COMPILER = "accelerator", "host", "compiler"
KNOWN = ("Constant", "Shape", "Size")
FOLDED, SPLIT = "BatchNormalization", "Sum"
NOTE = "<!-- Generated from the compiler by `make docs`. -->\n"


@dataclass(frozen=True, slots=True)
class Support:
    """An operator that is taken.

    Attributes:
        on: where it runs in a quantised network when the condition holds: "accelerator", "host", or
            "compiler" where nothing is left to run. Where the condition does not hold, it runs on the host.
        condition: "" where there is none.
    """

    op: str
    on: str
    condition: str = ""


def imported() -> list[Support]:
    """Return the ONNX operators, sorted."""
    names = {*IMPORTERS, *KNOWN}
    return [
        Support(f"{CONTRIBUTED_DOMAIN}.{op}" if op in CONTRIBUTED else op, *_where(op))
        for op in sorted(names)
    ]


def _where(op: str) -> tuple[str, str]:
    if op in KNOWN:
        return COMPILER, "known when the network is compiled"
    if op in ALWAYS:
        return COMPILER, "left out"
    if op == FOLDED:
        return (
            ACCELERATOR,
            "constant parameters; it goes into the Conv, ConvTranspose or Gemm before it, or alone "
            "becomes a depthwise Conv",
        )
    if op == SPLIT:
        return ACCELERATOR, f"operands of one shape; as several Add: {CONDITIONS['Add']}"
    if op in MEANINGS:
        return ACCELERATOR, f"scales and zero points constant; as {MEANINGS[op]}: {CONDITIONS[MEANINGS[op]]}"
    if op in MOVES and op in OPERATORS:
        return ACCELERATOR, f"{CONDITIONS[op]}; {OPERATORS[op].condition}"
    if op in AFFINE:
        return (
            ACCELERATOR,
            f"{CONDITIONS[op]}; or a constant for each channel of an image: it becomes a depthwise Conv "
            "or goes into the one before",
        )
    if op in MOVES:
        return HOST, CONDITIONS[
            op
        ] + "; nothing is left of it where no byte changes its place in the accelerator's DRAM" * (
            op in VIEWS
        )
    if op in CONDITIONS:
        return ACCELERATOR, CONDITIONS[op]
    return HOST, ""


def offloaded() -> list[Support]:
    """Return the integer operators that the others become, sorted, with what the accelerator asks of each."""
    return [Support(op, ACCELERATOR, kind.condition) for op, kind in sorted(OPERATORS.items())]


def to_json() -> dict[str, object]:
    """Return both tables as plain JSON values."""
    return {"onnx": [asdict(one) for one in imported()], "integer": [asdict(one) for one in offloaded()]}


def text() -> str:
    """Return both tables for a terminal."""
    rows = [
        ("operator", "on", "condition"),
        *((one.op, one.on, one.condition) for one in imported()),
        ("", "", ""),
        ("integer operator", "on", "condition"),
        *((one.op, one.on, one.condition) for one in offloaded()),
    ]
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    return "\n".join(f"{op:{first}}  {on:{second}}  {condition}".rstrip() for op, on, condition in rows)


def page() -> str:
    """Return the page of the documentation."""
    return "".join(
        (
            NOTE,
            "# Operators\n",
            f"Models of the operator sets from {OLDEST_OPSET} on are taken; `vdla ops` prints these "
            "tables. In a quantised network an operator runs on "
            "the accelerator where its condition holds, on the host in int8 or float32 where it does "
            "not; `vdla compile` names each operator that stays "
            "on the host, with the reason. What is not listed is refused before anything runs.\n\n",
            *_table("operator", imported()),
            "\n## What runs on the accelerator\nIntegers to the last bit as `runtime/host/int8.py` says. "
            "The configuration needs 32 bits of accumulators "
            "and the extensions `requantise` and `pad_minimum`.\n\n",
            *_table("integer operator", offloaded()),
        )
    )


def _table(head: str, rows: list[Support]) -> Iterator[str]:
    yield f"| {head} | on | condition |\n|---|---|---|\n"
    yield from (f"| {row.op} | {row.on} | {row.condition} |\n" for row in rows)

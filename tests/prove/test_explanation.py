"""The explanation of a difference names the first wrong term. Each case plants a fault, and knows the sentence
that has to come."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from proving.faults import instructions_of, with_instruction

from tests.compiler.lower.test_activation_products import Heads, attention
from tests.compiler.lower.test_channelwise import narrowed_behind_zero_points
from tests.compiler.network.compiled import handmade, plan_of
from tests.compiler.network.test_chains import FED, inverted_residual_with_tables
from tests.compiler.network.test_groups import (
    EpilogueNet,
    pooling_behind_a_convolution,
    sum_with_an_input_of_the_network,
)
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec import isa
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter
from vdla.prove.compare import prove
from vdla.prove.graphs import Graphs, graphs_for
from vdla.prove.proof import Explanation
from vdla.runtime.module.plan import Plan

FULL = TINY.with_changes(name="tiny with everything", extensions=tuple(Extension))
SUM = "sum with an input of the network"
Faults = Iterator[tuple[Plan, int | None]]


def pooling_of_the_whole_image(net: EpilogueNet) -> Graph:
    return net.graph(net.pool(net.input(1, 8, 1, 6), (1, 6)))


GRAPHS: dict[str, Callable[[], Graph]] = {
    SUM: lambda: sum_with_an_input_of_the_network(EpilogueNet())[0],
    "a pooling of the whole image": lambda: pooling_of_the_whole_image(EpilogueNet()),
    "pooled sums": lambda: pooling_behind_a_convolution(EpilogueNet()),
    "a chain": lambda: inverted_residual_with_tables(EpilogueNet()),
    "scaled inputs": lambda: narrowed_behind_zero_points(EpilogueNet()),
    "products": lambda: attention(Heads()),
    "products of tables": lambda: attention(Heads(), zeros=(-128, 3)),
}
CONFIGS = {"a chain": FED, "a pooling of the whole image": FULL.with_changes(name="oblong", block_in=8)}
"""Of graphs that are not compiled for FULL. Where blocks of inputs and outputs differ, the ALU takes the maximum."""


@lru_cache
def compiled(title: str) -> tuple[Plan, Graphs]:
    graph = GRAPHS[title]() if title in GRAPHS else handmade(title)[0]
    plan = plan_of(graph, CONFIGS.get(title, FULL))
    return plan, graphs_for(graph, plan.target)


def instructions(
    plan: Plan, form: type[isa.Instruction], change: Callable[[isa.Instruction], dict[str, int] | None]
) -> Faults:
    """Yield plans in which one instruction has other fields, and the instruction's position."""
    for launch in plan.launches:
        stream = plan.streams[launch.stream]
        for index, item in enumerate(instructions_of(stream)):
            fields = change(item) if isinstance(item, form) else None
            if fields:
                broken = with_instruction(stream, index, replace(item, **fields))
                yield replace(plan, streams={**plan.streams, launch.stream: broken}), index


def inputs_one_further(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Load,
        lambda it: {"dram_base": it.dram_base + 1} if it.memory_type == MemoryType.INP else None,
    )


def stale_inputs(plan: Plan) -> Faults:
    return instructions(
        plan, isa.Load, lambda it: {"x_size": 0} if it.memory_type == MemoryType.INP and it.x_size else None
    )


def products_once_less(plan: Plan) -> Faults:
    return instructions(
        plan, isa.Gemm, lambda it: {"uop_end": it.uop_end - 1} if it.uop_end > it.uop_begin + 1 else None
    )


def products_twice(plan: Plan) -> Faults:
    return instructions(
        plan, isa.Gemm, lambda it: {"iter_in": 2} if it.iter_in == 1 and not it.reset else None
    )


def weights_one_further(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Load,
        lambda it: (
            {"dram_base": it.dram_base + 1, "x_size": it.x_size - 1}
            if it.memory_type == MemoryType.WGT and it.x_size > 1
            else None
        ),
    )


def least_padding(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Load,
        lambda it: {"pad_minimum": 1} if it.memory_type == MemoryType.INP and it.y_pad_0 else None,
    )


def zero_padding(plan: Plan) -> Faults:
    return instructions(plan, isa.Load, lambda it: {"pad_minimum": 0} if it.pad_minimum else None)


def stores_one_behind(plan: Plan) -> Faults:
    return instructions(
        plan, isa.Store, lambda it: {"sram_base": it.sram_base + 1} if it.x_size > 1 else None
    )


def without_table(plan: Plan) -> Faults:
    return instructions(plan, isa.Store, lambda it: {"table": 0} if it.table else None)


def other_residual(plan: Plan) -> Faults:
    return instructions(plan, isa.Store, lambda it: {"residual": it.residual + 1} if it.residual else None)


def without_residual(plan: Plan) -> Faults:
    return instructions(plan, isa.Store, lambda it: {"residual": 0} if it.residual else None)


def stores_of_inputs(change: Callable[[isa.Store], dict[str, int] | None]) -> Callable[[Plan], Faults]:
    """Return faults in STOREs into INP."""
    return lambda plan: instructions(
        plan, isa.Store, lambda it: change(it) if it.memory_type == MemoryType.INP else None
    )


def windows_one_further(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Depthwise,
        lambda it: {"src_factor_out": it.src_factor_out + 1} if it.iter_out > 1 else None,
    )


def other_operand(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Load,
        lambda it: {"dram_base": it.dram_base + 1} if it.memory_type == MemoryType.ACC_8BIT else None,
    )


def greatest_of_fewer(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Alu,
        lambda it: (
            {"iter_out": it.iter_out - 1}
            if it.alu_opcode == AluOpcode.MAX and not it.use_imm and it.iter_out > 1
            else None
        ),
    )


def greatest_left_out(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Alu,
        lambda it: {"uop_end": it.uop_begin} if it.alu_opcode == AluOpcode.MAX and not it.use_imm else None,
    )


def products_left_out(plan: Plan) -> Faults:
    return instructions(
        plan,
        isa.Gemm,
        lambda it: {"uop_end": it.uop_begin} if not it.overwrite and not it.reset else None,
    )


def same_factors(plan: Plan) -> Faults:
    return instructions(
        plan, isa.Gemm, lambda it: {"wgt_factor_out": 0} if it.wgt_factor_out and it.iter_out > 1 else None
    )


def factors_one_further(plan: Plan) -> Faults:
    """Yield plans in which a LOAD of activations as weights reads other factors."""
    loads = instructions(
        plan,
        isa.Load,
        lambda it: {"dram_base": it.dram_base + 1} if it.memory_type == MemoryType.WGT else None,
    )
    places = plan.streams[plan.launches[0].stream].tensors
    constant = np.concatenate([places[name] for name in plan.weights if name in places])
    yield from ((broken, index) for broken, index in loads if index not in constant)


def tensors(plan: Plan, ending: str, change: Callable[[np.ndarray], np.ndarray | None]) -> Faults:
    """Yield plans in which one constant tensor has other values."""
    for name, values in plan.weights.items():
        other = change(values.copy()) if name.endswith(ending) else None
        if other is not None:
            yield replace(plan, weights={**plan.weights, name: other}), None


def swapped_blocks(plan: Plan) -> Faults:
    def swap(values: np.ndarray) -> np.ndarray | None:
        blocks = values.reshape(-1, FULL.block_in * FULL.block_out)
        if len(blocks) < 2:
            return None
        blocks[[0, 1]] = blocks[[1, 0]]
        return values

    return tensors(plan, ".W", swap)


def other_table(plan: Plan) -> Faults:
    def change(values: np.ndarray) -> np.ndarray:
        values.reshape(-1)[128] ^= 1  # the first entries belong to values of 0 and more
        return values

    return tensors(plan, ".T", change)


def parameter(word: Parameter, step: int, ending: str = ".P") -> Callable[[Plan], Faults]:
    """Return faults in a word of the first parameters of a tensor."""

    def change(values: np.ndarray) -> np.ndarray:
        words = values.reshape(-1).view(np.int32)
        words[word * FULL.batch * FULL.block_out] += step
        return values

    return lambda plan: tensors(plan, ending, change)


@dataclass(frozen=True)
class Case:
    """A fault and its explanation.

    Attributes:
        network: compiled network.
        faults: yields plans with the fault; the first whose explanation has the kind counts.
        text: pattern of the sentence.
        names: attribute by which the explanation names the broken instruction, which computes or loads.
    """

    network: str
    faults: Callable[[Plan], Faults]
    kind: str
    text: str
    names: str = ""


CASES = {
    "swapped weight blocks": Case(
        "residual",
        swapped_blocks,
        "weight",
        r"instruction \d+ \(GEMM.*multiplies \S+\[.*\], in INP element \d+ \(filled by instruction \d+ from byte .*"
        r"by -?\d+, in WGT element \d+ .*where -?\d+ \(\S+\[.*\]\) was due: "
        r"it reads weight block (0|1) of \S+\.W where block (?!\1)[01] was due",
    ),
    "weights loaded from another address": Case(
        "residual",
        weights_one_further,
        "weight",
        r"it reads weight block \d+ of \S+ where block \d+ was due",
        "loaded_by",
    ),
    "inputs loaded from another address": Case(
        "residual",
        inputs_one_further,
        "activation",
        r"reads \S+\[.*\], in INP element .*, where \S+\[.*\] was due",
        "loaded_by",
    ),
    "a stale tile": Case(
        "pixels of images", stale_inputs, "activation", r"GEMM.* reads .*, where \S+\[.*\] was due"
    ),
    "a missing micro-op": Case(
        "residual",
        products_once_less,
        "missing",
        r"no instruction adds \S+\[.*\] times -?\d+ \(\S+\[.*\]\), which was due",
    ),
    "products that are added twice": Case(
        "residual",
        products_twice,
        "extra",
        r"adds \S+\[.*\], in INP .* the same instruction has added and is due once",
        "instruction",
    ),
    "padding of a convolution": Case(
        "residual",
        least_padding,
        "constant",
        r"GEMM.*adds padding in INP element .*; bias and padding add up to",
        "loaded_by",
    ),
    "padding of a maximum": Case(
        "pooled", zero_padding, "constant", r"takes 0 into a maximum.*, where -128 was due"
    ),
    "a multiplier": Case(
        "residual", parameter(Parameter.MULTIPLIER, 2), "parameter", r"multiplier \d+ where \d+ was due"
    ),
    "a table": Case(
        "elements of many ranks",
        other_table,
        "table",
        r"looks up the table .*: -?\d+ for -128 where -?\d+ was due",
    ),
    "a residual of another pixel": Case(
        SUM,
        other_residual,
        "residual",
        r"the STORE adds \S+\[.*\], in RES element .*, where \S+\[.*\] was due",
    ),
    "no residual": Case(SUM, without_residual, "residual", r"the STORE adds no \S+\[.*\], which was due"),
    "no table": Case("elements of many ranks", without_table, "table", r"looks nothing up"),
    "a shift": Case(
        "residual", parameter(Parameter.SHIFT, 1), "parameter", r"shift -?\d+ where -?\d+ was due"
    ),
    "a bias": Case(
        "residual", parameter(Parameter.BIAS, 7), "constant", r"adds the bias in ACC element .* add up to"
    ),
    "a missing member of a pooling of sums": Case(
        "pooled sums",
        greatest_of_fewer,
        "missing",
        r"no instruction takes v0\[.*\] into the maximum, which was due",
    ),
    "a pooling that is left out": Case(
        "a pooling of the whole image",
        greatest_left_out,
        "missing",
        r"no instruction takes x0\[.*\] into the maximum, which was due; 6 members are missing; the accumulator "
        "has no term",
    ),
    "a wrong weight of a pooling of sums": Case(
        "pooled sums",
        swapped_blocks,
        "weight",
        r"multiplies x0\[.*\], in INP .* by -?\d+, in WGT .* where -?\d+ \(\S+\[.*\]\) was due",
    ),
    "inputs of a pooling of sums": Case(
        "pooled sums",
        inputs_one_further,
        "activation",
        r"GEMM.* reads x0\[.*\], in INP .*, where x0\[.*\] was due",
        "loaded_by",
    ),
    "parameters of a pooling of sums": Case(
        "pooled sums", parameter(Parameter.SHIFT, 1), "parameter", r"shift -?\d+ where -?\d+ was due"
    ),
    "a bias of a pooling of sums": Case(
        "pooled sums", parameter(Parameter.BIAS, 7), "constant", r"adds the bias in ACC element .* add up to"
    ),
    "an activation of an elementwise product": Case(
        "several ends",
        other_operand,
        "activation",
        r"(reads|multiplies) x\d\[.*\], in \S+ element .*where .*x0\[.*\] times .*x1\[.*\] was due",
    ),
    "a product of activations that is missing": Case(
        "products",
        products_once_less,
        "missing",
        r"no instruction adds v1\[.*\] times v0\[.*\] times 1, which was due; \d terms are missing",
    ),
    "factors of a product of activations": Case(
        "products of tables",
        factors_one_further,
        "activation",
        r"GEMM.* multiplies another function of v0\[.*\], in INP element .* by another function of "
        r"v0\[.*\], in WGT element .*, where a function of v0\[.*\] times a function of v0\[.*\] was due",
    ),
    "factors of scaled inputs": Case(
        "scaled inputs",
        same_factors,
        "activation",
        r"reads .*, in INP element \d+ \(written by instruction \d+\), where v3\[.*\] was due; "
        r"instruction \d+ \(STORE.* writes another value than v3\[.*\] for it: .*"
        r"multiplies v0\[.*\], in INP .* by v2\[.*\], in WGT .*, where .*v2\[.*\] times .*v0\[.*\] was due",
        "instruction",
    ),
    "a zero point of scaled inputs": Case(
        "scaled inputs",
        products_left_out,
        "missing",
        r"writes another value than v3\[.*\] for it: the factors of v0\[.*\] add up to 0, where -?\d+ was due",
    ),
    "a result of a chain at another place": Case(
        "a chain",
        stores_of_inputs(lambda it: {"dram_base": it.dram_base + 1}),
        "activation",
        r"reads v\d\[.*\], in INP element \d+ \(written by instruction \d+\), where v\d\[.*\] was due",
    ),
    "another table in a chain": Case(
        "a chain",
        stores_of_inputs(lambda it: {"table": it.table - 1} if it.table > 1 else None),
        "table",
        r"writes another value than v\d\[.*\] for it: the STORE looks up the table from TABLE element \d+ on",
    ),
    "windows of several rows": Case(
        "a chain",
        windows_one_further,
        "weight",
        r"instruction \d+ \(DEPTHWISE.*more_rows=1.* multiplies v1\[.*\], in INP element \d+ \(written by "
        r"instruction \d+\), by -?\d+, in WGT element \d+ .*, where -?\d+ \(c4\[.*\]\) was due",
    ),
    "parameters of a residual": Case(
        SUM,
        parameter(Parameter.MULTIPLIER, 2, ".S"),
        "parameter",
        r"the STORE adds the residual by the parameters in ACC elements 0 to 3 .*: -?\d+ for -?\d+ and a "
        r"residual of -?\d+, where -?\d+ was due",
    ),
    "an accumulator of another pixel": Case(
        "residual", stores_one_behind, "activation", r"; the byte holds \S+\[.*\]"
    ),
}


def explanations(case: Case) -> Iterator[tuple[Explanation, int | None]]:
    plan, graphs = compiled(case.network)
    for broken, index in case.faults(plan):
        proof = prove(broken, graphs, seed=7)
        if proof.explanation is not None:
            assert not proof.proved
            assert proof.to_json()["explanation"] == proof.explanation.to_json()
            yield proof.explanation, index


@pytest.mark.usefixtures("chains_pay")
@pytest.mark.parametrize("title", CASES)
def test_the_first_wrong_term_is_named(title):
    case = CASES[title]
    explanation, index = next(
        (
            each
            for each in explanations(case)
            if each[0].kind == case.kind and re.search(case.text, each[0].text)
        ),
        (None, None),
    )
    assert explanation is not None, [each[0] for each in explanations(case)][:3]
    if case.names:
        assert getattr(explanation, case.names) == index


def test_what_is_no_wrong_element_has_no_explanation():
    plan, graphs = compiled("residual")
    assert prove(plan, graphs, seed=7).explanation is None
    unequal = replace(plan, outputs={})
    assert prove(unequal, graphs, seed=7).explanation is None

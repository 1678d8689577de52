"""Compilation of a model to a file, and of each model in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from vdla.api import Module
from vdla.cli._networks import Recipe, compile_with_errors, plan_with_progress, show_tuning
from vdla.cli._proofs import proved
from vdla.cli._summaries import show_forecast
from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.hw.spec.writing import check_writable, write_bytes
from vdla.runtime.module.file import packed
from vdla.runtime.module.plan import Plan, Value
from vdla.runtime.samples import InputError

MODEL, MODULE = ".onnx", ".vdla"
KIB, MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done with each model.

    Attributes:
        errors: print the error of each layer.
        layers: list every layer after the summary.
        proves: write only modules whose streams are proved to compute their graph.
        graph: let the module carry its graph.
    """

    errors: bool
    layers: bool
    proves: bool
    graph: bool
    recipe: Recipe
    records: TuningRecords
    target: Target


def compile_one(model: Path, output: Path, order: Order) -> Plan:
    """Compile a model, write its module and print the summary.

    Raises:
        NotProvedError: the module was to be proved, and is not; nothing is written.
    """
    check_writable(output)
    given = model, order.target, order.recipe, order.records
    measured = compile_with_errors(*given) if order.errors else None
    plan, tuning, file = (
        plan_with_progress(*given) if measured is None else (measured.plan, measured.tuning, None)
    )
    proof = proved(plan) if order.proves else ""
    if file is None or not order.graph:
        file = packed(plan if order.graph else replace(plan, graphs=None))
    write_bytes(output, *file)
    show_forecast(plan, output, order.layers)
    click.echo(f"takes {_types(plan.given)}; makes {_types(plan.results)}")
    if plan.states:
        click.echo(f"keeps from run to run {_types({name: plan.inputs[name] for name in plan.states})}")
    if proof:
        click.echo(proof)
    show_tuning(tuning, order.records, order.target)
    if measured is not None and measured.errors:
        from vdla.compiler.graph.quantisation_error import print_contributions, print_errors

        click.echo(
            "signal to quantisation noise, including the noise of all layers before:\n"
            + print_errors(measured.errors),
            nl=False,
        )
        click.echo(print_contributions(measured.contributions), nl=False)
    click.echo(
        f"{output}: {_size(output.stat().st_size)}, "
        f"{sum(stream.count for stream in plan.streams.values()):,} instructions "
        f"in {len(plan.launches)} launch{'es' * (len(plan.launches) != 1)}, "
        f"{_size(sum(plan.tensors.values()))} of activations in DRAM"
    )
    return plan


def _size(count: int) -> str:
    """Return a number of bytes as text."""
    if count < KIB:
        return f"{count} bytes"
    return f"{count / KIB:.1f} KiB" if count < MIB else f"{count / MIB:.1f} MiB"


def _types(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items()) or "nothing"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of a model: its module's plan, or why there is none."""

    model: Path
    plan: Plan | None
    problem: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the table of models."""
        if self.plan is None:
            return self.model.name, "-", "-", "-", f"refused: {self.problem}"
        launches = str(len(self.plan.launches))
        try:
            summary = Module(self.plan).summary()
        except VdlaError as error:
            return self.model.name, "-", "-", launches, f"no device runs it: {error}"
        share = "-" if summary.mac_share is None else f"{summary.mac_share:.1%}"
        return self.model.name, f"{summary.cycles or 0:,}", share, launches, "compiled"


def compile_each(folder: Path, output: Path, order: Order) -> bool:
    """Compile each model in a folder, go on after a model that is refused, and print a table at the end.

    Args:
        output: the folder of the modules.

    Returns:
        Whether all were compiled.

    Raises:
        InputError: there is no model in the folder, or `output` is named as a module.
    """
    if output.suffix == MODULE and not output.is_dir():
        raise InputError(
            f"{output} is named as a module, and {folder} is a folder of models; -o names the folder of "
            "their modules"
        )
    models = sorted(path for path in folder.iterdir() if path.suffix == MODEL and path.is_file())
    if not models:
        raise InputError(f"{folder} is a folder without models; files with the ending {MODEL} are compiled")
    rows = []
    for model in models:
        rows.append(_row(model, output / f"{model.stem}{MODULE}", order))
        click.echo()
    click.echo(_table([row.cells for row in rows]))
    count = sum(row.plan is not None for row in rows)
    click.echo(f"{folder}: {count} of {len(rows)} models compiled to {output}")
    return count == len(rows)


def _row(model: Path, output: Path, order: Order) -> Row:
    click.echo(f"{model}:")
    try:
        return Row(model, compile_one(model, output, order))
    except VdlaError as error:
        click.echo(f"error: {error}", err=True)
        return Row(model, None, next(iter(str(error).splitlines()), ""))


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a head, numbers to the right."""
    lines = [("model", "cycles", "MACs there", "launches", "result"), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 0 < place < 4 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )

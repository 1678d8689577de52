"""The network that a command runs: a module from its file, or a model that is compiled first."""

import shlex
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from vdla.api import Module, Run, load
from vdla.cli._networks import Recipe, plan_with_progress, show_tuning
from vdla.compiler.codegen.tuned.best_records import KIT, TuningRecords
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import HostStep, LaunchStep
from vdla.runtime.samples import InputError
from vdla.runtime.samples.given import Given, given_of

MHZ = 1e6
MOST_NOTES = 3
COMPILING = (
    "config",
    "target",
    "settings",
    "calibrate",
    "percentile",
    "float_layers",
    "float_share",
    "quality",
    "shapes",
    "cut_inputs",
    "cut_outputs",
    "fixed",
    "tuned",
)
"""Parameters of the options of compilation."""


def module_of(path: Path, target: Target, recipe: Recipe, records: TuningRecords) -> Module:
    """Return the module in a .vdla file, or compile the model in any other, with tuned records.

    Raises:
        InputError: the file is a module, and options of compilation were given.
    """
    if path.suffix != ".vdla":
        compiled = plan_with_progress(path, target, recipe, records)
        if records.source != KIT:
            show_tuning(compiled.tuning, records, target, err=True)
        return Module(compiled.plan, compiled.tuning)
    given = options_given(*COMPILING)
    if given:
        raise InputError(
            f"{path} is compiled already, so {' and '.join(given)} cannot change it; run the model, or "
            "compile it again"
        )
    return load(path)


def inputs_of(path: Path | None, recipe: Recipe) -> Given | None:
    """Return the inputs in what --input names; None where it is not given.

    The scale of images may be given for the samples alone, where there are some.
    """
    if path is None:
        return None
    if recipe.calibrate is None:
        return given_of(path, recipe.image_scale)
    return replace(given_of(path), scale=recipe.image_scale)


def show_notes(done: Run) -> None:
    """Print what was done to the inputs of a run."""
    for note in done.notes[:MOST_NOTES]:
        click.echo(note, err=True)
    if len(done.notes) > MOST_NOTES:
        click.echo(f"and {len(done.notes) - MOST_NOTES} more like these", err=True)


def options_given(*names: str) -> list[str]:
    """Return the options with the parameters `names` that stand on the command line."""
    context = click.get_current_context()
    options = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    return [
        options[name] for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]


def command_line(name: str, other: click.Command, *options: str) -> str:
    """Return a command line of another command, with the parameters of this command line that it takes.

    Args:
        name: of the other command, as in "vdla compile".
        options: that are added, each a word.
    """
    context = click.get_current_context()
    taken = {parameter.name for parameter in other.params}
    words = [
        word
        for parameter in context.command.params
        if parameter.name in taken and parameter.name != "output"
        for word in _words_of(parameter, context)
    ]
    return f"{name} {shlex.join([*words, *options])}"


def _words_of(parameter: click.Parameter, context: click.Context) -> list[str]:
    """Return the words of a parameter that was given on the command line; none where it was not."""
    name = parameter.name
    if name is None or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return []
    value = context.params[name]
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(parameter, click.Argument):
        return [str(argument) for argument in values]
    return [word for argument in values for word in (parameter.opts[-1], str(argument))]


def step_name(step: HostStep | LaunchStep) -> str:
    """Return what a status line calls a step."""
    return f"launch {step.stream}" if isinstance(step, LaunchStep) else f"{step.op} {step.name}"

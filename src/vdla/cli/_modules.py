"""The network that a command runs: a module from its file, or a model that is compiled first."""

from pathlib import Path

import click
from click.core import ParameterSource

from vdla.api import Module, load
from vdla.cli._networks import Recipe, plan_with_progress
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import HostStep, LaunchStep
from vdla.runtime.samples import InputError

MHZ = 1e6
COMPILING = {
    "config": "--config",
    "target": "--target",
    "settings": "--set",
    "calibrate": "--calibrate",
    "percentile": "--percentile",
    "shapes": "--shape",
}
"""Options of compilation, by their parameters."""


def module_of(path: Path, target: Target, recipe: Recipe) -> Module:
    """Return the module in a .vdla file, or compile the model in any other.

    Raises:
        InputError: the file is a module, and options of compilation were given.
    """
    if path.suffix != ".vdla":
        return Module(plan_with_progress(path, target, recipe))
    given = options_given(*COMPILING)
    if given:
        raise InputError(
            f"{path} is compiled already, so {' and '.join(given)} cannot change it; run the model, or "
            "compile it again"
        )
    return load(path)


def options_given(*names: str) -> list[str]:
    """Return the options, of those with the given parameters, that stand on the command line."""
    source = click.get_current_context().get_parameter_source
    given = [name for name in names if source(name) is ParameterSource.COMMANDLINE]
    return [COMPILING.get(name, f"--{name.removesuffix('s')}") for name in given]


def step_name(step: HostStep | LaunchStep) -> str:
    """Return what a status line calls a step."""
    return f"launch {step.stream}" if isinstance(step, LaunchStep) else f"{step.op} {step.name}"

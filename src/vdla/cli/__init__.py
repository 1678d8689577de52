"""The command ``vdla``: one module of this package per sub-command.

A module ``vdla.cli.name`` that defines a click command called ``command`` is the sub-command ``name``.
Underscores become hyphens. A module whose name starts with an underscore is not a sub-command. A module is
imported only when its command runs, so that ``vdla --version`` is quick.
"""

import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click

from vdla import __version__
from vdla.hw.spec.garbage import without_collections

INTERRUPTED = 130
"""Exit status of an interrupted command: 128 plus the number of SIGINT, as in shells."""
THREADS = tuple(f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL"))
"""Variables that say on how many threads NumPy multiplies, which it reads when it is imported. Many small
products on several threads take many times as long where another process needs the processors, and gain
little elsewhere."""


class CommandModules(click.Group):
    """A group whose sub-commands are the modules of this package."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, on one thread unless the environment says otherwise; if standard output
        cannot be written, print one line and exit with 2."""
        for name in THREADS:
            os.environ.setdefault(name, "1")
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.filename is not None:  # writing to a stream has none
                raise
            click.echo(
                f"error: standard output cannot be written: {error.strerror}; send it to a file that has "
                "room",
                err=True,
            )
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # for what Python writes when it ends
            sys.exit(2)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all sub-commands, sorted."""
        modules = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
        return sorted(name.replace("_", "-") for name in modules)

    def invoke(self, ctx: click.Context) -> object:
        """Run a sub-command; an interrupt (Ctrl-C) gives exit status INTERRUPTED and a word on stderr."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _silence_amaranth()
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of sub-command ``cmd_name``; return None when there is no such module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        with without_collections():
            module = import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


def _silence_amaranth() -> None:
    """Let Amaranth not warn of the parts of an interrupted design, as it does not where Python ends with a
    traceback."""
    unused = sys.modules.get("amaranth._unused")
    if unused is not None:
        unused.MustUse._MustUse__silence = True


@click.command(cls=CommandModules)
@click.version_option(__version__, prog_name="vdla")
def main() -> None:
    """Generate, simulate, compile for and run deep-learning accelerators."""

"""Groups of commands with a default command, which needs no name."""

import click


class DefaultGroup(click.Group):
    """A group that takes anything but the name of a sub-command for the arguments of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the default sub-command in front where there is none."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else ["run", *args])


class _RunContext(click.Context):
    """A context whose usage leaves out the name of the sub-command, which nobody has to type."""

    @property
    def command_path(self) -> str:
        """The words before the arguments, which are the words of the group."""
        return super().command_path if self.parent is None else self.parent.command_path


class DefaultCommand(click.Command):
    """The command that the group runs where no sub-command is named; it is called `run`."""

    context_class = _RunContext

"""Running the command line in this process."""

from click.testing import CliRunner, Result

from vdla.cli import main


def invoke(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def done(*arguments: object) -> Result:
    """Run a command that ends well."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """Run a command that must refuse; return what it says."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return result.stderr.removeprefix("error: ").removesuffix("\n")

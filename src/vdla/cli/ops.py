"""``vdla ops``."""

import json

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the supported ONNX operators: where each runs, and under which conditions."""
    from vdla.compiler.network.support import text, to_json

    click.echo(json.dumps(to_json(), indent=1) if as_json else text())

"""``python -m vdla`` is the command ``vdla``."""

from vdla.cli import main

if __name__ == "__main__":
    main(prog_name="vdla")

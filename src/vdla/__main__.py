"""``python -m vdla`` is the command ``vdla``."""

import sys

if not sys.flags.safe_path:
    sys.path.pop(0)  # the current folder: a file there with the name of a library must not run

from vdla.cli import main

if __name__ == "__main__":
    main(prog_name="vdla")

"""The sources that a measured schedule depends on."""

import ast
from pathlib import Path

import vdla
from vdla.compiler.codegen.version import NETWORKS, TASKS, network_version, task_version

ROOT = Path(vdla.__file__).parent
# What only the start of a simulation of RTL, and the driver of boards, import; no schedule is measured there.
BESIDE = {"boards/board_file", "hw/signatures", "hw/verilog"}


def test_what_schedules_import_is_in_their_version():
    for folder in TASKS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vdla."):
                    place = "/".join(node.module.split(".")[1:])
                    assert f"{place}.py".startswith(TASKS) or place in BESIDE, (path, node.module)


def test_a_network_depends_on_more_than_its_tasks():
    assert all(any(task.startswith(package) for package in NETWORKS) for task in TASKS)
    assert network_version() != task_version()

"""Measurements that tests compare with those written down before; `make recorded` writes all of them anew."""

import json
from collections.abc import Mapping
from pathlib import Path


def write(file: Path, values: Mapping[str, Mapping[str, object]]) -> None:
    """Write a JSON object of objects, whose members have a line each, so that differences read well."""
    texts = [
        f"{json.dumps(title)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in members.items())
        for title, members in values.items()
    ]
    file.write_text("{\n" + "\n},\n".join(texts) + "\n}\n}\n")

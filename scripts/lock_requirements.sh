#!/usr/bin/env bash
# Write requirements.lock: every package that make installs, for Linux and CPython 3.11 to 3.13, with hashes.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet uv
printf 'setuptools>=77\nwheel\n' > "$scratch/build.in"
{
    echo "# Everything make installs, with versions and hashes."
    echo "# Written by scripts/lock_requirements.sh from pyproject.toml: do not edit by hand."
    "$scratch/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
        --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
        --extra rtl --extra fpga --extra formal --extra boards --extra explore --extra cluster --extra remote --extra dev --extra plot --extra tune --extra docs --extra models pyproject.toml "$scratch/build.in"
} > "$scratch/requirements.lock"
mv "$scratch/requirements.lock" requirements.lock

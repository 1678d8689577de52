#!/usr/bin/env bash
# Check the tools that RTL simulation and the tests need beside .venv; install what is missing when that needs no question.
# Chromium, in which the tests look at reports, is optional: without it they are skipped.
set -euo pipefail

# tool:Debian package
TOOLS=(g++:g++ make:make perl:perl iverilog:iverilog tclsh:tcl ccache:ccache)

OPTIONAL=(chromium:chromium)

# cocotb loads the shared library of this interpreter into Icarus Verilog. Debian puts that library into a package of its own.
PYTHON=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/python

has_libpython() {
    "$PYTHON" -c 'import sys, find_libpython; sys.exit(find_libpython.find_libpython() is None)'
}

libpython_package() {
    "$PYTHON" -c 'import sys; print("libpython{}.{}".format(*sys.version_info))'
}

# Print the packages of those tool:package entries whose tool is missing.
missing_of() {
    local entry
    for entry in "$@"; do
        command -v "${entry%%:*}" >/dev/null || echo "${entry##*:}"
    done
}

missing_packages() {
    missing_of "${TOOLS[@]}"
    has_libpython || libpython_package
}

# Print the prefix that makes apt-get work without a question; fail when there is none.
administrator() {
    command -v apt-get >/dev/null || return 1
    if [[ $(id -u) == 0 ]]; then
        echo "env"
    else
        sudo -n true 2>/dev/null && echo "sudo -n env"
    fi
}

install_packages() {
    local prefix
    prefix=$(administrator) || return 1
    echo "[tools] installing $*"
    $prefix DEBIAN_FRONTEND=noninteractive apt-get update -qq || echo "[tools] apt-get update failed; trying with the lists at hand" >&2
    $prefix DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if [[ ! -x $PYTHON ]]; then
    echo "[tools] $PYTHON is missing; run \`make env\` first" >&2
    exit 1
fi
mapfile -t missing < <(missing_packages)
if ((${#missing[@]})); then
    install_packages "${missing[@]}" || true
    mapfile -t missing < <(missing_packages)
fi
if ((${#missing[@]})); then
    echo "[tools] missing: ${missing[*]}" >&2
    echo "[tools] install them with: sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
    echo "[tools] libpython is the shared library of $PYTHON; a Python built from source needs --enable-shared" >&2
    exit 1
fi
mapfile -t optional < <(missing_of "${OPTIONAL[@]}")
if ((${#optional[@]})) && ! install_packages "${optional[@]}"; then
    echo "[tools] optional: ${optional[*]} is not installed; the tests of reports in a browser will be skipped"
fi
echo "[tools] ready"

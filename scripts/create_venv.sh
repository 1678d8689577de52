#!/usr/bin/env bash
# Make .venv with the newest suitable Python, CPython 3.11 to 3.13; keep a .venv that is already suitable.
set -euo pipefail
cd "$(dirname "$0")/.."

is_suitable() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

if is_suitable .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; then
    exit 0
fi

for candidate in python3.13 python3.12 python3.11 python3; do
    if is_suitable "$candidate"; then
        echo "[env] creating .venv with $("$candidate" --version)"
        exec "$candidate" -m venv --clear .venv
    fi
done

cat >&2 <<'MESSAGE'
No suitable Python found: vdla needs CPython 3.11, 3.12 or 3.13 with the venv module, on PATH as
python3.13, python3.12, python3.11 or python3.
On Debian or Ubuntu: apt-get install python3 python3-venv
MESSAGE
exit 1

#!/bin/sh
# Makes a virtual environment with the pinned packages: setup.sh PYTHON VENV REQUIREMENTS...
# On a bare Debian or Ubuntu it first installs the distribution's venv module, if it may.
set -eu
python=$1 venv=$2
shift 2

fail() { echo "setup: $1" >&2; exit 1; }

command -v "$python" >/dev/null || fail "$python is not installed; install Python 3.11 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old; Python 3.11 or newer is needed (make PYTHON=python3.12 …)"

if [ ! -x "$venv/bin/pip" ]; then
    echo "setup: making $venv"
    if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
        rm -rf "$venv"
        minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            echo "setup: installing python$minor-venv"
            apt-get update -qq && apt-get install -y -qq "python$minor-venv" >/dev/null
            "$python" -m venv "$venv"
        else
            fail "Python's venv module is missing; run: sudo apt-get install python$minor-venv"
        fi
    fi
fi

# Only files whose hashes are written down. What builds the project itself is one of them.
set -- -r requirements/build.txt $(for file in "$@"; do printf ' -r %s' "$file"; done)
echo "setup: installing packages"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes "$@"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .

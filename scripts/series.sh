#!/bin/sh
# Sees to it that the tests find the real series on which the forecast is tried: series.sh VENV. Only a file of the package
# is read, so what the package needs is not installed. Without it that test is skipped.
set -eu
"$1/bin/python" -m pip show -qq pmdarima >/dev/null 2>&1 && exit 0
echo "setup: installing pmdarima, for its series"
"$1/bin/python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r requirements/series.txt ||
    echo "setup: going on without it" >&2

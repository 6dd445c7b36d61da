#!/bin/sh
# Installs what stands for push services in the tests (tests/push_services), where npm is there.
set -eu
cd "$(dirname "$0")/../tests/push_services"
if [ -d node_modules ] && [ node_modules -nt package-lock.json ]; then exit 0; fi
if ! command -v npm > /dev/null; then
    echo "setup: npm is missing: going on without the tests that need a push service" >&2
    exit 0
fi
npm ci --no-audit --no-fund --loglevel error > /dev/null || {
    echo "setup: npm failed: going on without the tests that need a push service" >&2
    exit 0
}
touch node_modules

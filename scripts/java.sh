#!/bin/sh
# Sees to it that there is a Java that Spark runs on. Installs the distribution's package, if it may.
set -eu
oldest=17

fail() { echo "setup: $1" >&2; exit 1; }

version() {
    if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; else java=java; fi
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

found=$(version || true)
[ -n "$found" ] && [ "$found" -ge "$oldest" ] && exit 0
[ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME is $JAVA_HOME, where there is no Java $oldest or newer; correct it"

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "the pipeline needs Java $oldest or newer; install it, such as: sudo apt-get install openjdk-17-jre-headless"
fi
echo "setup: installing Java"
apt-get update -qq || true
for package in openjdk-17-jre-headless default-jre-headless; do
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1; then
        found=$(version || true)
        [ -n "$found" ] && [ "$found" -ge "$oldest" ] && exit 0
    fi
done
fail "the distribution has no Java $oldest or newer (tried openjdk-17-jre-headless, default-jre-headless)"

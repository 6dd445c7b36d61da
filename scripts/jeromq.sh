#!/bin/sh
# Sees to it that the tests find JeroMQ and a Java compiler, where it may. Without them they are skipped.
set -eu
[ -e /usr/share/java/jeromq.jar ] && command -v javac >/dev/null && exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "setup: installing JeroMQ"
apt-get update -qq >/dev/null 2>&1 || true
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libjeromq-java >/dev/null 2>&1 || exit 0
command -v javac >/dev/null ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jdk-headless >/dev/null 2>&1 || true

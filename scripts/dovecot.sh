#!/bin/sh
# Sees to it that the tests of e-mail find a real IMAP server. Installs the distribution's package, if it may.
set -eu
if command -v dovecot >/dev/null || [ -x /usr/sbin/dovecot ]; then exit 0; fi

fail() { echo "setup: $1" >&2; exit 1; }

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "the tests of e-mail need dovecot; install it, such as: sudo apt-get install dovecot-imapd"
fi
echo "setup: installing dovecot"
apt-get update -qq || true
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq dovecot-imapd >/dev/null 2>&1 ||
    fail "the distribution has no package dovecot-imapd"

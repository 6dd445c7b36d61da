"""Imports all built-in adapters, which declares their kinds."""

from __future__ import annotations

from hubbub.connectors.adapters import (
    channels,
    feed,
    folder,
    ftp,
    imap,
    matrix,
    rest,
    slack,
    smtp,
    telegram,
    web_push,
)

MODULES = (channels, feed, folder, ftp, imap, matrix, rest, slack, smtp, telegram, web_push)

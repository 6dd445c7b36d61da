"""The kinds of adapters of a server: those that come with it, and the operator's own."""

from __future__ import annotations

import logging

from hubbub.connectors.adapters import included
from hubbub.connectors.adapters.operator_files import load_folder
from hubbub.ports.adapters import AdapterKinds, declared
from hubbub.server.settings.adapters import Adapters

logger = logging.getLogger(__name__)


def make_adapter_kinds(settings: Adapters) -> AdapterKinds:
    """Blocks while it loads the operator's files. Those that cannot be loaded are named in the
    log, and the server starts without them."""
    assert included.MODULES
    kinds = declared()
    if settings.path is not None:
        try:
            load_folder(settings.path, kinds)
        except OSError as error:
            logger.error("adapters.path %s cannot be read: %s", settings.path, error.strerror)
    return kinds

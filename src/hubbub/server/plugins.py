"""Command plugins of a server, if its settings name a folder for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.server.settings.plugins import HCommands

if TYPE_CHECKING:
    from hubbub.connectors.plugins.pool import PluginWorkers


def make_plugins(settings: HCommands) -> PluginWorkers | None:
    if settings.path is None:
        return None
    from hubbub.connectors.plugins.pool import PluginLimits, PluginWorkers

    limits = PluginLimits(settings.workers, settings.memory_bytes, settings.static_analysis)
    return PluginWorkers(settings.path, limits)

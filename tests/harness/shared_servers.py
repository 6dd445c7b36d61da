"""Servers that tests of one module share, one after the other: each test has hubs of its own on
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.running_hub import RunningHub, hub_settings, open_hub
from hubbub.domain.errors import HubNotFound
from hubbub.domain.rules import HubConfiguration
from hubbub.ports.storage.administration import AuditQuery
from hubbub.server.suspension import HubSuspension
from hubbub.server.wiring import Server

_MOST_IDLE = 3


class SharedHub(RunningHub):
    """A server that other tests use afterwards, unless the test closes it."""

    def __init__(self, server: Server, key: str) -> None:
        super().__init__(server)
        self.key = key
        self.stopped = False

    async def close(self) -> None:
        self.stopped = True
        await super().close()


class SharedServers:
    """Servers by their settings, each for one test at a time. Between two tests all hubs of a
    server are deleted. A server where more than that would remain is stopped."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._idle: list[SharedHub] = []

    async def lease(
        self, hubs: Sequence[HubConfiguration], overrides: dict[str, object]
    ) -> SharedHub:
        key = repr(sorted(overrides.items()))
        declared = hubs or (open_hub(),)
        for found in self._idle:
            if found.key == key:
                self._idle.remove(found)
                await _declare(found.server, declared)
                return SharedHub(found.server, key)
        server = Server(hub_settings(self._new_folder(), *declared, **overrides))
        await server.start()
        return SharedHub(server, key)

    async def give_back(self, hub: SharedHub) -> None:
        """Raises `AssertionError` if the test broke the server."""
        if hub.stopped:
            return
        await hub.disconnect()
        server, reusable = hub.server, False
        try:
            assert server.store.problem is None, server.store.problem
            reusable = await _is_as_new(server)
            for name in {*server.directory.names(), *server.node.hubs} if reusable else ():
                await _delete(server, name)
        except BaseException:
            await server.stop()
            raise
        if not reusable or len(self._idle) == _MOST_IDLE:
            await server.stop()
        else:
            self._idle.append(hub)

    async def stop(self) -> None:
        for hub in self._idle:
            await hub.server.stop()


async def _is_as_new(server: Server) -> bool:
    """Revocations and the audit log outlive a hub."""
    if server.revocations.in_force or server.node.draining:
        return False
    return not await server.store.read_audit(AuditQuery(limit=1))


async def _delete(server: Server, hub: str) -> None:
    """When the rows of the hub are deleted, nothing of it is in memory or in progress."""
    suspending = HubSuspension(server.store, server.directory, server.owner, server.node)
    await suspending.suspend(hub)
    server.store.release_writes(hub)
    await server.directory.delete_hub(hub)
    server.node.drop_hub(hub, HubNotFound(f"hub {hub!r} was deleted"))
    await suspending.resume(hub)


async def _declare(server: Server, hubs: Sequence[HubConfiguration]) -> None:
    await server.directory.declare(hubs)
    for hub in hubs:
        await server.directory.changed(hub.hub)

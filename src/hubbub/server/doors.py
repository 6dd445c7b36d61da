"""The listeners of a process: HTTP with everything that it serves, and ZeroMQ."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from hubbub import __version__
from hubbub.engine.access.tickets import Tickets
from hubbub.engine.administration import Administration
from hubbub.engine.node import Node
from hubbub.gateways.admin_door import AdminDoor, Application
from hubbub.gateways.dashboard.door import About, DashboardDoor
from hubbub.gateways.dashboard.login import DashboardLogin
from hubbub.gateways.listener import Listener, ServerPage, tls_context
from hubbub.server.address import AddressFile
from hubbub.server.mqtt import make_door as make_mqtt_door
from hubbub.server.settings import Settings
from hubbub.server.steps import Step
from hubbub.server.web_files import dashboard_files, docs_files, sdk_files
from hubbub.server.zeromq import make_door

_PAGES = {"/": "start.html", "/chat": "chat.html", "/board": "board.html"}
"""Served in developer mode: a start page, a chat, a shared board."""


class Listeners:
    """Constructs the listener and the ZeroMQ door, and opens them."""

    def __init__(
        self,
        settings: Settings,
        node: Node,
        administration: Administration,
        pages: Mapping[str, ServerPage],
        node_name: str,
    ) -> None:
        """`pages` are the operator's own, by path. Raises `SettingsError`."""
        self._settings = settings
        self._administration = administration
        self._announcement = AddressFile(settings)
        self.port = 0
        self.zeromq_endpoint: str | None = None
        self.tickets = Tickets(node.clock) if settings.developer else None
        """One-time login tickets for the dashboard."""
        self.admin = AdminDoor(self._application, settings.admin.request_timeout)
        self.listener = Listener(
            node,
            settings.listener,
            settings.connection,
            {**pages, **(_developer_pages() if settings.developer else {})},
            self.admin,
            static={**sdk_files(), **docs_files()},
            dashboard=DashboardDoor(
                DashboardLogin(administration, self.tickets),
                self.admin,
                dashboard_files(),
                About(__version__, node_name, settings.developer),
            ),
            access_log=settings.debug.access_log,
            developer=settings.developer,
        )
        self.zeromq = make_door(settings, node, administration.stop)
        self.mqtt = make_mqtt_door(settings, node, self.listener)

    def _application(self) -> Application:
        """Imported at the first request: most nodes of a cluster never get one."""
        from hubbub.gateways.admin.table import make_application

        return make_application(self._administration)

    @property
    def mqtt_ports(self) -> tuple[int, ...]:
        return () if self.mqtt is None else tuple(each.port for each in self.mqtt.open_ports)

    def steps(self) -> list[Step]:
        """The start steps, to be run after everything behind the listeners has started."""
        zeromq = (
            [] if self.zeromq is None else [Step("ZeroMQ", self._open_zeromq, self.zeromq.stop)]
        )
        mqtt = [] if self.mqtt is None else [Step("MQTT", self._open_mqtt, self.mqtt.stop)]
        return [
            *zeromq,
            *mqtt,
            Step("listener", self._listen, self.listener.stop),
            Step("address", lambda: self._announcement.begin(self.port), self._announcement.end),
        ]

    async def _open_zeromq(self) -> None:
        assert self.zeromq is not None
        self.zeromq_endpoint = await self.zeromq.start()

    async def _open_mqtt(self) -> None:
        assert self.mqtt is not None
        await self.mqtt.start(shared=self._settings.worker is not None)

    async def _listen(self) -> None:
        listener = self._settings.listener
        tls = None
        if listener.tls.certificate is not None and listener.tls.key is not None:
            tls = tls_context(str(listener.tls.certificate), str(listener.tls.key))
        shared = self._settings.worker is not None
        self.port = await self.listener.start(
            listener.host, listener.port, listener.backlog, tls, shared
        )


def _developer_pages() -> dict[str, ServerPage]:
    return {path: _page(name) for path, name in _PAGES.items()}


def _page(name: str) -> ServerPage:
    body = files("hubbub.server").joinpath("pages", name).read_bytes()
    return lambda _: (200, "text/html; charset=utf-8", body)

"""How the settings say to reach NATS."""

from __future__ import annotations

from hubbub.cluster.nats_connection import NatsOptions
from hubbub.server.settings import Secret, Settings


def nats_options(settings: Settings) -> NatsOptions:
    broker = settings.broker
    return NatsOptions(
        servers=broker.servers,
        user=broker.user,
        password=reveal(broker.password),
        token=reveal(broker.token),
        credentials=broker.credentials_file,
        tls=broker.tls.enabled,
        tls_root_certificate=broker.tls.root_cert,
        tls_certificate=broker.tls.cert,
        tls_key=broker.tls.key,
        connect_seconds=broker.connect_timeout,
    )


def reveal(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()

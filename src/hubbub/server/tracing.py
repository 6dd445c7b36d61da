"""Creates tracing from the settings. OpenTelemetry is imported only if enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub import __version__
from hubbub.server.settings import Settings, SettingsError
from hubbub.server.settings.cluster_checks import node_name

if TYPE_CHECKING:
    from hubbub.connectors.otlp_spans import OtlpSpans


def make_tracing(settings: Settings) -> OtlpSpans | None:
    """None if no endpoint is configured. Raises `SettingsError`."""
    tracing = settings.tracing
    if tracing.endpoint is None:
        return None
    try:
        from hubbub.connectors.otlp_spans import OtlpOptions, OtlpSpans
    except ModuleNotFoundError as error:
        raise SettingsError(
            [
                f"tracing.endpoint is set, and the package {error.name} is missing: "
                "pip install '.[tracing]' in a checkout"
            ]
        ) from error
    return OtlpSpans(
        OtlpOptions(
            endpoint=tracing.endpoint,
            header=None if tracing.header is None else tracing.header.reveal(),
            service_name=tracing.service_name,
            service_version=__version__,
            node=node_name(settings),
            sample_ratio=tracing.sample_ratio,
            queue_size=tracing.queue_size,
            export_seconds=tracing.export_interval,
            timeout_seconds=tracing.export_timeout,
        )
    )

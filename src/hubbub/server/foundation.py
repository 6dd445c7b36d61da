"""The foundation of the engine in one process: store, bus, journal and traces."""

from __future__ import annotations

import logging
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.journal.exporting import RuleOf
from hubbub.ports.clock import Clock
from hubbub.ports.journal import NO_JOURNAL, Journal
from hubbub.ports.services import NO_STREAMS, StreamSink
from hubbub.server.backup.restore import complete_restore
from hubbub.server.fabric import make_fabric
from hubbub.server.journals import make_journal
from hubbub.server.limits import engine_limits
from hubbub.server.settings import Settings
from hubbub.server.steps import Step
from hubbub.server.stores import make_store
from hubbub.server.tracing import make_tracing

logger = logging.getLogger(__name__)


class Foundation:
    """Constructs the adapters behind the engine's ports, according to the settings."""

    def __init__(self, settings: Settings, clock: Clock, rule_of: RuleOf) -> None:
        """`rule_of` returns the journal rule of a channel. Raises `StoreUnavailable` and
        `SettingsError`."""
        _make_ready(Path(settings.storage.path))
        self.clock = clock
        self.limits = engine_limits(settings)
        self.store = make_store(settings)
        self.spans = make_tracing(settings)
        self.fabric = make_fabric(settings, clock, self.store, self.spans)
        self.bus = self.fabric.bus
        self.writer = make_journal(settings, clock, self.store, rule_of, self.fabric.node_name)
        """None if the journal is disabled."""

    @property
    def journal(self) -> Journal:
        return self.writer or NO_JOURNAL

    @property
    def streams(self) -> StreamSink:
        """The sink for stream events: the journal's, if it is enabled."""
        return NO_STREAMS if self.writer is None else self.writer.streams

    def storage_steps(self) -> list[Step]:
        traces = [] if self.spans is None else [Step("traces", stop=self.spans.close)]
        return [*traces, Step("store", self.store.open, self.store.close)]

    def journal_steps(self) -> list[Step]:
        """The journal's start steps, to be run after the settings were read, since it needs the
        channels' rules."""
        writer = self.writer
        return [] if writer is None else [Step("journal", writer.start, writer.stop)]


def _make_ready(data: Path) -> None:
    """Raises `StoreUnavailable`."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if complete_restore(data):
            logger.warning("completed a restore of %s that had been cut short", data)
    except OSError as error:
        raise StoreUnavailable.because(
            f"the data folder {data} cannot be used ({error.strerror}); make it a folder that the"
            " hub's user may write to, or choose another (storage.path)"
        ) from error

"""Starts the process that seals, so that Arrow is never loaded into the hub's."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
from pathlib import Path

from hubbub.processes import module_command, module_environment

logger = logging.getLogger(__name__)


class Sealer:
    """One process at a time; a call that finds one running leaves it to that one or the next."""

    def __init__(
        self, journal_path: Path, retention_days: float = 0, archive: str | None = None
    ) -> None:
        """`retention_days`: older segments go at the same time; 0 keeps them. `archive`: where
        sealed segments are pushed to."""
        self._arguments = [str(journal_path), str(retention_days), *([archive] if archive else [])]
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.able = importlib.util.find_spec("pyarrow") is not None

    def start(self) -> None:
        """Never raises."""
        if not self.able or self._stopped:
            return
        if self._process is not None and self._process.poll() is None:
            return
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
                module_command("hubbub.journal.sealing", *self._arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=module_environment(),
            )
        except OSError as error:
            logger.warning("the journal's segments are not sealed now: %s", error.strerror)

    def stop(self) -> None:
        """Sealing can be cut short at any point: whoever comes next completes it."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

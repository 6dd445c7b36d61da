"""Starts the sealing process, so that the hub's process never loads Arrow."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
from pathlib import Path

from hubbub.processes import module_command, module_environment

logger = logging.getLogger(__name__)


class Sealer:
    """Runs one process at a time; a call during a run leaves the work to that run or the next."""

    def __init__(
        self, journal_path: Path, retention_days: float = 0, archive: str | None = None
    ) -> None:
        """`retention_days`: older segments are deleted at the same time; 0 keeps them. `archive`:
        URL to which sealed segments are pushed."""
        self._arguments = [str(journal_path), str(retention_days), *([archive] if archive else [])]
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.able = importlib.util.find_spec("pyarrow") is not None

    def start(self) -> None:
        """Starts the process of the sealer. Never raises."""
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
        """Kills the process. Sealing may be interrupted at any point: the next run completes it."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

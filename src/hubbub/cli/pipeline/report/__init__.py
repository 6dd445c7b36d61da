"""The report: a self-contained HTML page for any browser, also offline."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from hubbub.cli.pipeline.report import sections
from hubbub.cli.pipeline.report.figures import Figures
from hubbub.cli.pipeline.report.wording import escaped, moment

DAYS = 31


def make_report(warehouse: Path | str, hub: str | None = None, days: int = DAYS) -> str:
    """A report on all hubs, or one. Raises `PipelineError`, `WarehouseUnreadable`."""
    figures = Figures(warehouse, hub, days)
    total, by_time = figures.traffic()
    opened, sessions_by_time = figures.sessions()
    parts = [
        sections.summary(figures, total, opened),
        sections.traffic(by_time),
        sections.activity(figures),
        sections.sessions(sessions_by_time),
        sections.latency(figures, by_time),
        sections.threads(figures),
        sections.trending(figures),
        sections.audit(figures),
        sections.success(figures),
        sections.shared_state(figures),
        sections.forecast(figures),
    ]
    of = f"Hub {hub}" if hub is not None else "All hubs"
    when = moment(figures.computed_at) if figures.computed_at else "never"
    style, script = _built("style.css"), _built("report.js")
    filled = {
        "policy": f"default-src 'none'; img-src data:; style-src {_hash(style)};"
        f" script-src {_hash(script)}; require-trusted-types-for 'script'; trusted-types 'none'",
        "style": style,
        "script": script,
        "title": escaped(of),
        "when": f"As of {when} UTC. Times are UTC.",
        "body": "".join(parts),
    }
    # In one pass: what was filled in is not looked at again.
    return re.sub(rf"\{{\{{({'|'.join(filled)})\}}\}}", lambda found: filled[found[1]], _template())


def _template() -> str:
    return files(__package__).joinpath("page.html").read_text("utf-8")


def _built(name: str) -> str:
    """Reads a file built by `make web`."""
    return files("hubbub").joinpath("web", "dashboard", name).read_text("utf-8")


def _hash(text: str) -> str:
    """The Content-Security-Policy hash of an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

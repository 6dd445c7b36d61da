"""Sections of the report: each function converts data to HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hubbub.cli.pipeline.report import wording
from hubbub.cli.pipeline.report.charts import ChartLine, Unit, chart
from hubbub.cli.pipeline.report.figures import Figures, Row
from hubbub.cli.pipeline.report.wording import count, duration, escaped, share, time_of

Column = tuple[str, Callable[[Row], str]]

_GOOD = "exactly once"


def section(title: str, question: str, *parts: str) -> str:
    return (
        f"<section class='section'><h2>{escaped(title)}</h2><p class='note'>{escaped(question)}</p>"
        f"{''.join(parts)}</section>"
    )


def table(columns: Sequence[Column], rows: Sequence[Row], none: str = "None.") -> str:
    if not rows:
        return f'<p class="note">{escaped(none)}</p>'
    head = "".join(f"<th>{escaped(name)}</th>" for name, _ in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(value(row))}</td>" for _, value in columns) + "</tr>"
        for row in rows
    )
    return _scrolled(f"<tr>{head}</tr>{body}")


def _scrolled(rows: str) -> str:
    """Makes a wide table scrollable, also by keyboard."""
    return f'<div class="scroll" tabindex="0"><table class="list">{rows}</table></div>'


def of(name: str, form: Callable[[Any], str] = str) -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else form(row[name])


def each(names: str, form: Callable[[Any], str] = str) -> list[Column]:
    """Columns titled after their fields."""
    return [(name.replace("_", " "), of(name, form)) for name in names.split()]


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Tiles with a name, a value, and a comment."""
    shown = "".join(
        f"<div class='stat'><span class='label'>{escaped(name)}</span>"
        f"<b class='value'>{escaped(figure)}</b><span class='sub'>{escaped(remark)}</span></div>"
        for name, figure, remark in entries
    )
    return f"<div class='stats'>{shown}</div>"


def summary(figures: Figures, total: Row, opened: Row) -> str:
    verdicts = [counts for kind, counts in figures.verdicts().items() if kind != "session"]
    audited = sum(sum(counts.values()) for counts in verdicts)
    good = sum(counts.get(word, 0) for counts in verdicts for word in (_GOOD, "waiting"))
    return tiles(
        [
            ("messages in", count(total["messages_in"]), wording.size(total["bytes_in"])),
            ("messages out", count(total["messages_out"]), wording.size(total["bytes_out"])),
            ("dropped", count(total["dropped"]), "live, to slow readers"),
            ("sessions", count(opened["sessions"]), f"mean {duration(opened['duration_mean'])}"),
            (
                "latency, median",
                duration(total["latency_p50"]),
                f"p99 {duration(total['latency_p99'])}",
            ),
            (
                "exactly-once faults",
                count(audited - good) if audited else "–",
                f"of {count(audited)} audited",
            ),
        ]
    )


_IN, _OUT = ChartLine("in", "in"), ChartLine("out", "out")
_MICROSECONDS = 1e-6
_PERCENTILES = (ChartLine("p50", "accent"), ChartLine("p90", "in"), ChartLine("p99", "out"))


def percentiles(title: str, by_time: Mapping[float, Row], prefix: str) -> str:
    """Uses a logarithmic scale: the slowest may take a thousand times as long as the median."""
    lines = [
        (line, [_seconds(row[f"{prefix}_{line.label}"]) for row in by_time.values()])
        for line in _PERCENTILES
    ]
    return chart(title, list(by_time), lines, unit="seconds", log=True)


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else max(microseconds, 1.0) * _MICROSECONDS


def column(by_time: Mapping[float, Row], name: str) -> list[float | None]:
    return [row[name] for row in by_time.values()]


def charts(*drawn: str) -> str:
    return f"<div class='columns'>{''.join(drawn)}</div>"


def traffic(by_time: Mapping[float, Row]) -> str:
    """Separate charts for in and out: one may be a thousand times the other."""
    units: Mapping[str, Unit] = {"messages": "count", "bytes": "bytes"}
    drawn = [
        chart(
            f"{what.capitalize()} {way.label}",
            list(by_time),
            [(way, column(by_time, f"{what}_{way.label}"))],
            unit=unit,
        )
        for what, unit in units.items()
        for way in (_IN, _OUT)
    ]
    return section("Traffic", "How much went in and out?", charts(*drawn))


def activity(figures: Figures) -> str:
    by_time = figures.activity()
    lines = (ChartLine("sessions", "accent"), ChartLine("channels", "out"), ChartLine("hubs", "in"))
    drawn = [
        chart(
            f"Active {line.label}",
            list(by_time),
            [(line, column(by_time, f"active_{line.label}"))],
        )
        for line in lines
    ]
    return section(
        "Active over time", "How many sessions, channels and hubs were active?", charts(*drawn)
    )


def sessions(by_time: Mapping[float, Row]) -> str:
    opened = [(ChartLine("sessions", "accent"), column(by_time, "sessions"))]
    return section(
        "Sessions",
        "How many sessions were opened, and how long did they last?",
        charts(
            chart("Sessions opened", list(by_time), opened, bars=True),
            percentiles("Duration, by when they were opened", by_time, "duration"),
        ),
    )


def latency(figures: Figures, by_time: Mapping[float, Row]) -> str:
    rows = figures.rows("latency_overall", 100_000)
    shown = sorted((row for row in rows if row["channel"] is None), key=lambda row: row["hub"])
    slow = sorted(
        (row for row in rows if row["channel"] is not None),
        key=lambda row: -(row["latency_p99"] or 0),
    )[:10]
    form = {"deviation": "stddev"}
    figures_of = [
        *each("deliveries", count),
        *(
            (name, of(f"latency_{form.get(name, name)}", duration))
            for name in ("min", "mean", "max", "deviation", "p50", "p90", "p99")
        ),
    ]
    by_technology = each("hub technology")
    return section(
        "Latency",
        "How long does a message take from its publisher to a subscriber's socket?",
        percentiles("Latency", by_time, "latency"),
        "<h3>By technology</h3>",
        table([*by_technology, *figures_of], shown),
        "<h3>The slowest channels, by p99</h3>",
        table([*each("channel"), *by_technology, *figures_of], slow),
    )


def threads(figures: Figures) -> str:
    number, crossing, longest = figures.threads()
    peers = [row for row in figures.rows("peers", 100_000) if row["answers"]]
    peers.sort(key=lambda row: (-row["answers"], row["peer"]))
    return section(
        "Threads and answers",
        "Who talks with whom, and how fast do they answer?",
        f"<p>{count(number)} threads, {count(crossing)} of them across channels or"
        " conversations. The longest:</p>",
        table(
            [
                ("first message", of("thread")),
                *each("hub started_by"),
                *each("messages participants", count),
                ("lasted", of("duration", duration)),
                ("answer after, mean", of("response_mean", duration)),
            ],
            longest,
        ),
        "<h3>Peers who answer most</h3>",
        table(
            [
                *each("peer hub"),
                *each("messages answers", count),
                ("p50", of("response_p50", duration)),
                ("p90", of("response_p90", duration)),
                ("last seen", of("last_at", time_of)),
            ],
            peers[:12],
        ),
    )


def trending(figures: Figures) -> str:
    newest, found = figures.trending()
    parts = []
    for kind, title in (("channel", "Channels"), ("type", "Types"), ("term", "Words")):
        rows = found.get(kind, [])
        best = max((row["score"] for row in rows), default=1.0)
        bars = "".join(
            f"<tr><td>{escaped(row['name'] or '(none)')}</td><td>{escaped(row['hub'])}</td>"
            "<td><meter class='bar' aria-label='score'"
            f" value='{row['score'] / best:.2f}'></meter></td>"
            f"<td>{count(row['messages'])}</td><td>{row['usual']:.1f}</td></tr>"
            for row in rows
        )
        head = "<tr><th></th><th>hub</th><th></th><th>messages</th><th>usual</th></tr>"
        body = _scrolled(f"{head}{bars}") if rows else '<p class="note">None.</p>'
        parts.append(f"<div><h3>{title}</h3>{body}</div>")
    return section(
        "Trending",
        f"What is more than usual in the hour from {time_of(newest)}, against its own past?",
        f"<div class='columns three'>{''.join(parts)}</div>",
    )


def audit(figures: Figures) -> str:
    lines = [
        f"<li><b>{escaped(kind)}s</b>: "
        + ", ".join(f"{count(n)} {escaped(verdict)}" for verdict, n in sorted(counts.items()))
        + "</li>"
        for kind, counts in figures.verdicts().items()
    ]
    faults = [
        row for row in figures.rows("audit", 1000) if row["verdict"] not in (_GOOD, "waiting")
    ]
    return section(
        "Exactly-once audit",
        "Was anything lost, doubled or out of order?",
        f"<ul>{''.join(lines)}</ul>" if lines else '<p class="note">Nothing to audit.</p>',
        "<h3>Faults</h3>",
        table(
            [
                *each("verdict kind name hub channel"),
                *each("messages lost doubled out_of_order", count),
                *each("since", time_of),
            ],
            faults[:20],
            "None was found.",
        ),
    )


def success(figures: Figures) -> str:
    adapters = [
        *each("day hub adapter policy"),
        *each("deliveries", count),
        ("delivered", of("success", share)),
        *each("attempts", count),
        ("p90", of("duration_p90", duration)),
        *each("usual_failure"),
    ]
    policies = [*each("day hub policy"), *each("deliveries", count), ("met", of("success", share))]
    return newest(
        figures,
        "Delivery success",
        "How often do webhooks, adapters and policies get a message through?",
        {"adapter_success": ("Adapters", adapters), "policy_success": ("Policies", policies)},
    )


def shared_state(figures: Figures) -> str:
    documents = [*each("day hub channel"), *each("changes authors version document_bytes", count)]
    notes = [*each("day hub"), *each("created unread", count), *each("read_p50", duration)]
    pushes = [*each("day hub platform"), *each("attempts", count), *each("success", share)]
    return newest(
        figures,
        "Documents, notifications and pushes",
        "What changes, what is read, and what reaches devices?",
        {
            "documents": ("Documents", documents),
            "notifications": ("Notifications, by when they were created", notes),
            "pushes": ("Pushes", [*pushes, *each("duration_p90", duration)]),
        },
    )


def newest(
    figures: Figures, title: str, question: str, tables: Mapping[str, tuple[str, Sequence[Column]]]
) -> str:
    """The newest rows of some tables with their headings; empty if none has rows."""
    found = [(*shown, figures.rows(name, 30)) for name, shown in tables.items()]
    parts = [f"<h3>{head}</h3>{table(columns, rows)}" for head, columns, rows in found if rows]
    return section(title, question, *parts) if parts else ""


def forecast(figures: Figures) -> str:
    rows = sorted(figures.sum_rows("forecast"), key=lambda row: row["time"])
    errors = figures.sum_rows("forecast_errors")
    if not rows:
        return section(
            "Forecast",
            "What will the coming week bring?",
            '<p class="note">There is too little history: it takes two days at least.</p>',
        )
    coming = [row for row in rows if not row["held_back"]]
    parts = ["<ul>", *(_error_line(row) for row in errors), "</ul>"]
    shown = (("messages_in", "Messages in"), ("messages_out", "Messages out"))
    now = coming[0]["time"].timestamp() if coming else None
    parts.append(
        charts(
            *(_forecast_chart(f"{title}, by the hour", name, rows, now) for name, title in shown)
        )
    )
    nodes = max(coming, key=lambda row: row["nodes"])
    parts.append(
        f"<p>At most <b>{count(nodes['nodes'])}</b> nodes are called for, in the hour from"
        f" {time_of(nodes['time'])}.</p>"
    )
    return section(
        "Forecast", "What will the coming week bring, and is that to be trusted?", *parts
    )


def _error_line(row: Row) -> str:
    measure = escaped(row["measure"].replace("_", " "))
    return (
        f"<li><b>{measure}</b>: on {count(row['hours'])} hours that it had not seen, the forecast"
        f" was off by {share(row['error_share'])} of a mean hour; the same hour yesterday by"
        f" {share(row['yesterday_error_share'])}. It is {escaped(row['verdict'])}.</li>"
    )


_EXPECTED = (
    (ChartLine("expected", "accent"), ""),
    (ChartLine("at least", "muted", dashed=True), "_low"),
    (ChartLine("at most", "muted", dashed=True), "_high"),
    (ChartLine("came", "ink"), "_actual"),
)


def _forecast_chart(title: str, name: str, rows: Sequence[Row], now: float | None) -> str:
    lines = [(line, [row[f"{name}{end}"] for row in rows]) for line, end in _EXPECTED]
    return chart(title, [row["time"].timestamp() for row in rows], lines, band=(1, 2), now=now)

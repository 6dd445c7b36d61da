"""The parts of the report: each takes figures and answers a piece of the page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hubbub.pipeline.report import wording
from hubbub.pipeline.report.charts import Band, Series, bar_chart, line_chart
from hubbub.pipeline.report.figures import Figures, Row
from hubbub.pipeline.report.wording import count, duration, escaped, share, time_of

Column = tuple[str, Callable[[Row], str]]

_GOOD = "exactly once"


def section(title: str, question: str, *parts: str) -> str:
    return (
        f"<section><h2>{escaped(title)}</h2><p class='question'>{escaped(question)}</p>"
        f"{''.join(parts)}</section>"
    )


def table(columns: Sequence[Column], rows: Sequence[Row], none: str = "None.") -> str:
    if not rows:
        return f'<p class="none">{escaped(none)}</p>'
    head = "".join(f"<th>{escaped(name)}</th>" for name, _ in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(value(row))}</td>" for _, value in columns) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def of(name: str, form: Callable[[Any], str] = str) -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else form(row[name])


def each(names: str, form: Callable[[Any], str] = str) -> list[Column]:
    """Columns with the names of their fields."""
    return [(name.replace("_", " "), of(name, form)) for name in names.split()]


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """A name, a figure, and a word on it."""
    shown = "".join(
        f"<div class='tile'><b>{escaped(figure)}</b><span>{escaped(name)}</span>"
        f"<small>{escaped(remark)}</small></div>"
        for name, figure, remark in entries
    )
    return f"<div class='tiles'>{shown}</div>"


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
                f"of {count(audited)} producers and subscriptions",
            ),
        ]
    )


def lines(by_time: Mapping[float, Row], names: Mapping[str, str]) -> list[Series]:
    """One for each name, of the field that it stands for; with a hole where a time is missing."""
    pairs = list(itertools.pairwise(by_time))
    step = min((after - before for before, after in pairs), default=0.0)
    holes = [before + step for before, after in pairs if after > before + 1.5 * step]
    times = sorted([*by_time, *holes])
    return [
        Series(name, [(time, by_time[time][field] if time in by_time else None) for time in times])
        for name, field in names.items()
    ]


def percentiles(prefix: str) -> dict[str, str]:
    return {name: f"{prefix}_{name}" for name in ("p50", "p90", "p99")}


def traffic(by_time: Mapping[float, Row]) -> str:
    def charts(title: str, what: str, label: Callable[[float], str]) -> str:
        """In and out side by side: one may be a thousand times the other."""
        drawn = "".join(
            f"<div><h3>{title} {way}</h3>"
            + line_chart(f"{what} {way} over time", lines(by_time, {way: f"{what}_{way}"}), label)
            + "</div>"
            for way in ("in", "out")
        )
        return f"<div class='columns two'>{drawn}</div>"

    return section(
        "Traffic",
        "How much went in and out?",
        charts("Messages", "messages", wording.short),
        charts("Bytes", "bytes", wording.size),
    )


def activity(figures: Figures) -> str:
    shown = {name: f"active_{name}" for name in ("sessions", "channels", "hubs")}
    return section(
        "Active over time",
        "How many sessions, channels and hubs were active?",
        line_chart(
            "active sessions, channels and hubs over time", lines(figures.activity(), shown)
        ),
    )


def sessions(by_time: Mapping[float, Row]) -> str:
    opened = [(time, row["sessions"]) for time, row in by_time.items()]
    lasted = lines(by_time, percentiles("duration"))
    return section(
        "Sessions",
        "How many sessions were opened, and how long did they last?",
        "<h3>Opened</h3>",
        bar_chart("sessions opened by the hour", opened),
        "<h3>Duration, by when they were opened</h3>",
        line_chart("duration of sessions, percentiles", lasted, duration, log=True),
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
        line_chart(
            "latency over time, percentiles",
            lines(by_time, percentiles("latency")),
            duration,
            log=True,
        ),
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
            f"<td class='meter'><i style='width:{100 * row['score'] / best:.0f}%'></i></td>"
            f"<td>{count(row['messages'])}</td><td>{row['usual']:.1f}</td></tr>"
            for row in rows
        )
        head = "<tr><th></th><th>hub</th><th></th><th>messages</th><th>usual</th></tr>"
        body = f"<table>{head}{bars}</table>" if rows else '<p class="none">None.</p>'
        parts.append(f"<div><h3>{title}</h3>{body}</div>")
    return section(
        "Trending",
        f"What is more than usual in the hour from {time_of(newest)}, against its own past?",
        f"<div class='columns'>{''.join(parts)}</div>",
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
        f"<ul>{''.join(lines)}</ul>" if lines else '<p class="none">Nothing to audit.</p>',
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
    """The newest rows of some tables below their headings; nothing where none has any."""
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
            '<p class="none">There is too little history: it takes two days at least.</p>',
        )
    coming = [row for row in rows if not row["held_back"]]
    past = [row for row in rows if row["held_back"]]
    parts = ["<ul>", *(_error_line(row) for row in errors), "</ul>"]
    for name, title in (("messages_in", "Messages in"), ("messages_out", "Messages out")):
        parts += [f"<h3>{title}, by the hour</h3>", _forecast_chart(name, past, coming)]
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


def _forecast_chart(name: str, past: Sequence[Row], coming: Sequence[Row]) -> str:
    def at(row: Row) -> float:
        time: datetime = row["time"]
        return time.timestamp()

    band = [
        (at(row), row[f"{name}_low"], row[f"{name}_high"])
        for row in coming
        if row[f"{name}_low"] is not None
    ]
    return line_chart(
        f"forecast of {name.replace('_', ' ')}",
        [
            Series("came", [(at(row), row[f"{name}_actual"]) for row in past]),
            Series("forecast", [(at(row), row[name]) for row in [*past, *coming]], dashed=True),
        ],
        band=Band("nine of ten hours", band) if band else None,
        now=at(coming[0]) if coming else None,
    )

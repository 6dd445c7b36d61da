"""The parts of the report: each takes figures and answers a piece of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hubbub.pipeline.report import wording
from hubbub.pipeline.report.charts import Band, Series, bar_chart, line_chart
from hubbub.pipeline.report.figures import Durations, Figures, Traffic
from hubbub.pipeline.report.wording import count, duration, escaped, share, time_of

Row = Mapping[str, Any]
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


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """A name, a figure, and a word on it."""
    shown = "".join(
        f"<div class='tile'><b>{escaped(figure)}</b><span>{escaped(name)}</span>"
        f"<small>{escaped(remark)}</small></div>"
        for name, figure, remark in entries
    )
    return f"<div class='tiles'>{shown}</div>"


def summary(figures: Figures, total: Traffic, sessions: int, lasting: Durations) -> str:
    verdicts = figures.verdicts()
    wrong = sum(
        each
        for kind, counts in verdicts.items()
        if kind != "session"
        for verdict, each in counts.items()
        if verdict not in (_GOOD, "waiting")
    )
    audited = sum(sum(counts.values()) for kind, counts in verdicts.items() if kind != "session")
    latency = total.latency
    return tiles(
        [
            ("messages in", count(total.messages_in), wording.size(total.bytes_in)),
            ("messages out", count(total.messages_out), wording.size(total.bytes_out)),
            ("dropped", count(total.dropped), "live, to slow readers"),
            ("sessions", count(sessions), f"mean {duration(lasting.mean)}"),
            (
                "latency, median",
                duration(latency.percentile(0.5)),
                f"p99 {duration(latency.percentile(0.99))}",
            ),
            (
                "exactly-once faults",
                count(wrong) if audited else "–",
                f"of {count(audited)} producers and subscriptions",
            ),
        ]
    )


def traffic(by_time: Mapping[float, Traffic]) -> str:
    def line(name: str) -> list[tuple[float, float | None]]:
        return [(time, getattr(each, name)) for time, each in by_time.items()]

    def charts(title: str, what: str, label: Callable[[float], str]) -> str:
        """In and out side by side: one may be a thousand times the other."""
        drawn = "".join(
            f"<div><h3>{title} {way}</h3>"
            + line_chart(f"{what} {way} over time", [Series(way, line(f"{what}_{way}"))], label)
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
    found = figures.activity()

    def line(name: str) -> list[tuple[float, float | None]]:
        return [(time, each[name]) for time, each in found.items()]

    return section(
        "Active over time",
        "How many sessions, channels and hubs were active?",
        line_chart(
            "active sessions, channels and hubs over time",
            [
                Series("sessions", line("active_sessions")),
                Series("channels", line("active_channels")),
                Series("hubs", line("active_hubs")),
            ],
        ),
    )


def sessions(by_time: Mapping[float, tuple[int, Durations]]) -> str:
    lines = [
        Series(name, [(time, each.percentile(part)) for time, (_, each) in by_time.items()])
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    return section(
        "Sessions",
        "How many sessions were opened, and how long did they last?",
        "<h3>Opened</h3>",
        bar_chart("sessions opened by the hour", [(t, n) for t, (n, _) in by_time.items()]),
        "<h3>Duration, by when they were opened</h3>",
        line_chart("duration of sessions, percentiles", lines, duration, log=True),
    )


def latency(figures: Figures, by_time: Mapping[float, Traffic]) -> str:
    lines = [
        Series(name, [(time, each.latency.percentile(part)) for time, each in by_time.items()])
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    rows = figures.rows("latency_overall", 100_000)
    shown = sorted((row for row in rows if row["channel"] is None), key=lambda row: row["hub"])
    slow = sorted(
        (row for row in rows if row["channel"] is not None),
        key=lambda row: -(row["latency_p99"] or 0),
    )[:10]
    figures_of = [
        ("deliveries", of("deliveries", count)),
        ("min", of("latency_min", duration)),
        ("mean", of("latency_mean", duration)),
        ("max", of("latency_max", duration)),
        ("deviation", of("latency_stddev", duration)),
        ("p50", of("latency_p50", duration)),
        ("p90", of("latency_p90", duration)),
        ("p99", of("latency_p99", duration)),
    ]
    by_technology: list[Column] = [("hub", of("hub")), ("technology", of("technology"))]
    return section(
        "Latency",
        "How long does a message take from its publisher to a subscriber's socket?",
        line_chart("latency over time, percentiles", lines, duration, log=True),
        "<h3>By technology</h3>",
        table([*by_technology, *figures_of], shown),
        "<h3>The slowest channels, by p99</h3>",
        table([("channel", of("channel")), *by_technology, *figures_of], slow),
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
                ("hub", of("hub")),
                ("started by", of("started_by")),
                ("messages", of("messages", count)),
                ("participants", of("participants", count)),
                ("lasted", of("duration", duration)),
                ("answer after, mean", of("response_mean", duration)),
            ],
            longest,
        ),
        "<h3>Peers who answer most</h3>",
        table(
            [
                ("peer", of("peer")),
                ("hub", of("hub")),
                ("messages", of("messages", count)),
                ("answers", of("answers", count)),
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
                ("verdict", of("verdict")),
                ("kind", of("kind")),
                ("name", of("name")),
                ("hub", of("hub")),
                ("channel", of("channel")),
                ("messages", of("messages", count)),
                ("lost", of("lost", count)),
                ("doubled", of("doubled", count)),
                ("out of order", of("out_of_order", count)),
                ("since", of("since", time_of)),
            ],
            faults[:20],
            "None was found.",
        ),
    )


def success(figures: Figures) -> str:
    adapters = figures.rows("adapter_success", 30)
    policies = figures.rows("policy_success", 30)
    if not adapters and not policies:
        return ""
    return section(
        "Delivery success",
        "How often do webhooks, adapters and policies get a message through?",
        table(
            [
                ("day", of("day")),
                ("hub", of("hub")),
                ("adapter", of("adapter")),
                ("policy", of("policy")),
                ("deliveries", of("deliveries", count)),
                ("delivered", of("success", share)),
                ("attempts", of("attempts", count)),
                ("p90", of("duration_p90", duration)),
                ("usual failure", of("usual_failure")),
            ],
            adapters,
        ),
        "<h3>Policies</h3>",
        table(
            [
                ("day", of("day")),
                ("hub", of("hub")),
                ("policy", of("policy")),
                ("deliveries", of("deliveries", count)),
                ("met", of("success", share)),
            ],
            policies,
        ),
    )


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

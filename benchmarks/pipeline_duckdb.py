"""The gold table `traffic` in SQL, for DuckDB to compute from the same files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

_SLOT = '(epoch_us("at") // 300000000) * 300'
_QUERY = f"""
WITH sent AS (
    SELECT hub, {_SLOT} AS slot, sum("count") AS messages_out, sum(size) AS bytes_out,
        min(latency_min) AS low, max(latency_max) AS high, sum(latency_sum) AS total,
        sum(latency_squares) AS squares
    FROM read_parquet($deliveries) GROUP BY ALL
), entries AS (
    SELECT hub, {_SLOT} AS slot, unnest(map_entries(latency_buckets)) AS entry
    FROM read_parquet($deliveries)
), buckets AS (
    SELECT hub, slot, entry.key AS bucket, sum(entry.value) AS entries FROM entries GROUP BY ALL
), seen AS (
    SELECT *, sum(entries) OVER (PARTITION BY hub, slot ORDER BY bucket) AS seen,
        sum(entries) OVER (PARTITION BY hub, slot) AS total
    FROM buckets
), percentiles AS (
    SELECT hub, slot, min(bucket) FILTER (seen >= ceil(total * 0.5)) AS b50,
        min(bucket) FILTER (seen >= ceil(total * 0.9)) AS b90,
        min(bucket) FILTER (seen >= ceil(total * 0.99)) AS b99
    FROM seen GROUP BY ALL
), received AS (
    SELECT hub, {_SLOT} AS slot, count(*) AS messages_in, sum(size) AS bytes_in
    FROM read_parquet($messages) GROUP BY ALL
), dropped AS (
    SELECT hub, {_SLOT} AS slot, sum(coalesce("count", 1)) AS dropped
    FROM read_parquet($drops) WHERE kind = 'message.dropped' GROUP BY ALL
)
SELECT hub, slot, coalesce(messages_in, 0)::BIGINT AS messages_in,
    coalesce(bytes_in, 0)::BIGINT AS bytes_in,
    coalesce(messages_out, 0)::BIGINT AS messages_out, coalesce(bytes_out, 0)::BIGINT AS bytes_out,
    coalesce(dropped, 0)::BIGINT AS dropped,
    total / messages_out AS latency_mean,
    sqrt(greatest(squares / messages_out - (total / messages_out) ** 2, 0)) AS latency_stddev,
    least(greatest(2 ** ((b50 + 0.5) / 8), low), high) AS latency_p50,
    least(greatest(2 ** ((b90 + 0.5) / 8), low), high) AS latency_p90,
    least(greatest(2 ** ((b99 + 0.5) / 8), low), high) AS latency_p99
FROM sent FULL JOIN percentiles USING (hub, slot) FULL JOIN received USING (hub, slot)
    FULL JOIN dropped USING (hub, slot)
"""


def traffic(files: Mapping[str, Sequence[Path]]) -> list[dict[str, Any]]:
    """Rows as the gold table has them, without what only serves to add them up."""
    from datetime import UTC, datetime

    names = {name: [str(path) for path in paths] for name, paths in files.items()}
    with duckdb.connect() as connection:
        found = connection.execute(_QUERY, names)
        columns = [column[0] for column in found.description or ()]
        rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
    for row in rows:
        row["time"] = datetime.fromtimestamp(row["slot"], UTC)
    return rows

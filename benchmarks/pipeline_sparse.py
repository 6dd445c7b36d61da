"""`python -m benchmarks.pipeline_sparse FOLDER`: two quiet years of chat as sealed segments.

The shape of a public chat history: 211,983 messages in 521 rooms, some in each of 18,000 hours, a
tenth of them answers. The same seed gives the same years.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.pipeline_day import write_segment
from benchmarks.pipeline_events import complete
from benchmarks.pipeline_words import texts
from hubbub.domain import journal

MESSAGES = 211_983
ROOMS = 521
HOURS = 18_000
SEGMENTS = 8
START = 1_672_531_200_000_000
HOUR = 3_600_000_000
SEED = 11


def write_years(sealed: Path, messages: int = MESSAGES, seed: int = SEED) -> int:
    """How many messages were written."""
    random = np.random.default_rng(seed)
    hours = np.sort(np.concatenate([np.arange(HOURS), random.integers(0, HOURS, messages - HOURS)]))
    at = np.sort(START + hours * HOUR + random.integers(0, HOUR, messages))
    room = (ROOMS * random.power(0.3, messages)).astype(np.int64)
    said = pa.array(texts(random, 4096)).take(pa.array(random.integers(0, 4096, messages)))
    numbers = np.arange(messages)
    answers = random.random(messages) < 0.1
    asked = np.maximum(numbers - random.integers(1, 50, messages), 0)
    columns = pa.table(
        {
            "schema_version": pa.repeat(journal.SCHEMA_VERSION, messages),
            "offset": pa.array(numbers),
            "kind": pa.repeat(journal.PUBLISHED, messages),
            "at": pa.array(at),
            "published_at": pa.array(at),
            "hub": pa.repeat("chat", messages),
            "node": pa.repeat("import", messages),
            "channel": pa.array([f"room-{number}" for number in room]),
            "user": pa.array([f"u{number}" for number in random.integers(0, 5000, messages)]),
            "message_id": pa.array([f"m{number}" for number in numbers]),
            "refers_to": pa.array([f"m{number}" for number in asked], mask=~answers),
            "content_type": pa.repeat("text/plain", messages),
            "payload": said.cast(pa.binary()),
            "size": pa.array([len(text) for text in said.to_pylist()], pa.int64()),
            "stored": pa.repeat(True, messages),
        }
    )
    sealed.mkdir(parents=True, exist_ok=True)
    size = -(-messages // SEGMENTS)
    for number in range(SEGMENTS):
        part = complete(columns.slice(number * size, size))
        write_segment(part, sealed / f"import-{number:04}.parquet")
    return messages


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline_sparse")
    parser.add_argument("folder", type=Path, help="the journal's folder; segments go to sealed/")
    print(f"{write_years(parser.parse_args().folder / 'sealed'):,} messages")


if __name__ == "__main__":
    main()

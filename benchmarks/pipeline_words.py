"""Sentences of invented words, of which few are common: for terms that trend."""

from __future__ import annotations

import numpy as np

_STARTS = ("ba", "co", "de", "fi", "gu", "ha", "jo", "ki", "lo", "mu", "na", "pe", "ro", "su", "ti")
_ENDS = ("ler", "mon", "rin", "sta", "ven", "x", "do", "ng", "pel", "rak", "so", "tte", "v", "zi")
WORDS = tuple(f"{start}{middle}{end}" for start in _STARTS for middle in _STARTS for end in _ENDS)


def texts(random: np.random.Generator, count: int) -> list[str]:
    """Sentences of 12 to 30 words."""
    weights = 1 / np.arange(1, len(WORDS) + 1) ** 0.9
    weights /= weights.sum()
    lengths = random.integers(12, 31, count)
    chosen = random.choice(len(WORDS), int(lengths.sum()), p=weights)
    parts = np.split(chosen, np.cumsum(lengths)[:-1])
    return [" ".join(WORDS[word] for word in part) for part in parts]

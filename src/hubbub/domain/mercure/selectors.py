"""Selectors of topics: what a subscriber wants, and what a token allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hubbub.domain.errors import BadRequest
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.filters.filters import Filter, Filters
from hubbub.domain.filters.view import MessageView
from hubbub.domain.mercure.templates import any_matches, compile_template
from hubbub.domain.mercure.updates import is_private, topics_of
from hubbub.domain.names import MERCURE_LOG

MAX_SELECTORS: Final = 100
MAX_SELECTOR_CHARS: Final = 2048
EVERYTHING: Final = "*"


class Selectors:
    """Selectors, of which a topic must match one. Equal selectors in another order are equal."""

    __slots__ = ("_any", "_exact", "_templates", "texts")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._any = EVERYTHING in self.texts
        self._exact = frozenset(self.texts)
        compiled = ((each, compile_template(each)) for each in self.texts)
        self._templates = {text: each for text, each in compiled if each is not None}

    def match(self, topics: Sequence[str]) -> bool:
        """Whether one of the topics matches."""
        if self._any:
            return True
        exact = self._exact
        if any(topic in exact for topic in topics):
            return True
        templates = self._templates
        return bool(templates) and any(any_matches(templates, topic) for topic in topics)

    @property
    def cost(self) -> int:
        """About what an update takes, in comparisons of filters; it may have several topics."""
        return 1 + 4 * sum(each.cost for each in self._templates.values())

    @property
    def key(self) -> list[str]:
        return sorted(self._exact)


NOTHING: Final = Selectors(())
ALL: Final = Selectors((EVERYTHING,))


def check_selectors(texts: Sequence[str]) -> None:
    """Checks the selectors of a stream. Raises `BadRequest`."""
    if not texts:
        raise BadRequest("name at least one topic: ?topic=https://example.com/books/1, or ?topic=*")
    if len(texts) > MAX_SELECTORS:
        raise BadRequest(
            f"a stream has at most {MAX_SELECTORS} topic selectors, not {len(texts)}; use a URI "
            "template such as https://example.com/books/{id} for many topics"
        )
    for text in texts:
        if not 0 < len(text) <= MAX_SELECTOR_CHARS:
            raise BadRequest(
                f"the topic selector {text[:40]!r} has {len(text)} characters; give 1 to "
                f"{MAX_SELECTOR_CHARS}"
            )


def filters_for(wanted: Selectors, allowed: Selectors) -> Filters:
    """The filters of a stream: an update passes if a topic matches what is wanted; a private one
    only if a topic also matches what the token allows. Streams with equal selectors have equal
    filters, and so share their evaluation."""

    def passes(view: MessageView) -> bool:
        message: Any = view.message
        topics = topics_of(message)
        return wanted.match(topics) and (not is_private(message) or allowed.match(topics))

    key = msgspec.json.encode(["mercure", wanted.key, allowed.key])
    definition = FilterDefinition("mercure", MERCURE_LOG)
    return Filters((Filter(definition, passes, key, wanted.cost + allowed.cost),))

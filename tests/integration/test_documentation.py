"""The documentation says what is true: its examples run as printed, its links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.documentation import RUN_LANGUAGES, blocks_of, pages, title_of
from harness.example_runner import running_examples

WITH_EXAMPLES = [
    page for page in pages() if any(each.language in RUN_LANGUAGES for each in blocks_of(page))
]


@pytest.mark.spec("UI-04")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=title_of)
async def test_examples_work_as_printed(page: Path, tmp_path: Path) -> None:
    async with running_examples(page, tmp_path) as examples:
        assert await examples.run()

"""The process of a local copy, and the hub, are killed again and again while edits are made: what
was saved is in the document, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.servers import free_port
from harness.child import child
from harness.hub_process import HubProcess
from hubbub.client import connect

EDITOR = Path(__file__).with_name("copy_editor.py")
OPEN = {"public": True, "allowAnonymous": True, "clientPublish": True}
ROUNDS = 6
EDITS = 40


@pytest.mark.spec("DOC-03", "local copies survive SIGKILL of the client and of the hub")
async def test_what_was_saved_is_applied_once_whoever_is_killed(tmp_path: Path) -> None:
    hubs = {
        "acme": {"settings": {"allowAnonymous": True, "defaultRules": "o"}, "rules": {"o": OPEN}}
    }
    port = free_port()
    saved: list[int] = []
    async with HubProcess(tmp_path, hubs, listener={"port": port}) as hub:
        await hub.start()
        url, file = f"ws://127.0.0.1:{port}", tmp_path / "a.copy"
        for number in range(ROUNDS):
            first = number * EDITS
            async with child(EDITOR, file, url, first, EDITS) as editor:
                await editor.until(f"saved {first + EDITS // 3}")
                if number % 2:
                    await hub.kill()
                    await editor.until(f"saved {first + EDITS // 2}")
                await editor.kill()
                # The last line may be cut: the editor was killed while it wrote.
                said = [line.split() for line in editor.said if line.startswith("saved ")]
                saved += [int(words[1]) for words in said if len(words) == 2]
            if number % 2:
                await hub.start()
        async with child(EDITOR, file, url, ROUNDS * EDITS, 1) as editor:
            await editor.until("settled")
            await editor.ended()
        saved.append(ROUNDS * EDITS)
        async with connect(url, hub="acme") as client:
            found = (await client.document("doc:a").get()).value["items"]
    assert len(found) == len(set(found)), "nothing is doubled"
    assert set(saved) <= set(found), "nothing that was saved is lost"
    assert found == sorted(found), "edits are applied in their order"

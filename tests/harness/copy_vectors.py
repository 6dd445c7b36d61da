"""Runs the examples of `spec/document-copies.json` on the state machine of local copies."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import msgspec

from hubbub.client.copies.changes import Effect, Rejected, SavedChange
from hubbub.client.copies.replica import Fetched, Replica, Update
from hubbub.domain.documents.document import find
from hubbub.domain.documents.paths import parse_path
from hubbub.domain.documents.values import Value, stored_value
from hubbub.domain.errors import (
    HubbubError,
    NotPermitted,
    PatchFailed,
    SequenceGap,
    Unavailable,
    VersionMismatch,
)

ERRORS = {
    error.code: error
    for error in (NotPermitted, PatchFailed, SequenceGap, Unavailable, VersionMismatch)
}


class VectorRun:
    """One case. Ids of changes are c1, c2 …, producers p1, p2 …"""

    def __init__(self, case: dict[str, Any]) -> None:
        saved = case.get("saved", {})
        ids, producers = count(1), count(1)
        changes = [
            msgspec.json.decode(json.dumps(each), type=SavedChange)
            for each in saved.get("changes", ())
        ]
        self.replica = Replica(
            lambda: f"c{next(ids)}",
            lambda: f"p{next(producers)}",
            saved=changes,
            producer=saved.get("producer", ""),
            sequence=saved.get("sequence", 0),
        )
        if "document" in saved:
            self.replica.load(saved["epoch"], saved["version"], _value(saved["document"]))

    def step(self, do: dict[str, Any]) -> dict[str, Any]:
        """The result of a step: an error, or effects, the view and the confirmed version."""
        ((what, said),) = do.items()
        try:
            getattr(self, f"_{what}")(said)
        except HubbubError as error:
            return {"error": error.code}
        replica = self.replica
        return {
            "effects": [_shown(each) for each in replica.effects()],
            "view": json.loads(replica.view.json()),
            "confirmed": [replica.epoch, replica.version],
            "pending": replica.unconfirmed,
        }

    def _edit(self, said: dict[str, Any]) -> None:
        self.replica.edit(_text(said["ops"]), said.get("guard", "auto"))

    def _increment(self, said: dict[str, Any]) -> None:
        """A function: adds 1 to a number of the root; a missing one is 0."""
        path = parse_path(said["path"])

        def function(root: Value) -> bytes:
            try:
                now = find(root, path)
            except PatchFailed:
                now = 0
            return _text([{"op": "add", "path": said["path"], "value": now + 1}])

        self.replica.edit_by(function)

    def _connected(self, _: Any) -> None:
        self.replica.connected()

    def _lost(self, _: Any) -> None:
        self.replica.lost()

    def _resend(self, _: Any) -> None:
        self.replica.resend()

    def _informed(self, said: dict[str, Any]) -> None:
        self.replica.informed(said["epoch"], said["version"])

    def _updated(self, said: dict[str, Any]) -> None:
        self.replica.updated(_update(said))

    def _fetched(self, said: dict[str, Any]) -> None:
        document = _value(said["document"]) if "document" in said else msgspec.UNSET
        updates = tuple(_update({**said, **each}) for each in said.get("updates", ()))
        more = said.get("more", False)
        self.replica.fetched(Fetched(said["epoch"], said["version"], document, updates, more))

    def _answered(self, said: dict[str, Any]) -> None:
        self.replica.answered(said["id"], said["epoch"], said["version"])

    def _refused(self, said: dict[str, Any]) -> None:
        kind = ERRORS[said["code"]]
        error = PatchFailed("", reason="missing") if kind is PatchFailed else kind("")
        error.details |= {name: said[name] for name in ("epoch", "version") if name in said}
        self.replica.refused(said["id"], error)


def _shown(effect: Effect) -> dict[str, Any]:
    if isinstance(effect, Rejected):
        code = getattr(effect.error, "code", "function")
        ops = json.loads(bytes(effect.ops))
        return {"effect": "rejected", "id": effect.id, "code": code, "ops": ops}
    shown: dict[str, Any] = json.loads(msgspec.json.encode(effect))
    return shown


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _value(value: Any) -> Value:
    return stored_value(_text(value))


def _update(said: dict[str, Any]) -> Update:
    ops = msgspec.Raw(_text(said["ops"]))
    return Update(said["epoch"], said["version"], said.get("changeID", "other"), ops)

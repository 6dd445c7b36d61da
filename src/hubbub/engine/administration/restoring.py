"""Restoring one hub from a backup while the server runs.

Rows are loaded beside those of the hub, in slices, while everyone goes on. Then the hub is
suspended on all nodes, the store replaces its rows in one transaction, and the hub goes on from
there. Until that transaction nothing of the hub changes; a crash leaves what was before it, or what
is after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import Any, Protocol

import msgspec

from hubbub.domain.errors import Conflict, HubbubError, Internal, NotFound, Unavailable
from hubbub.domain.names import check_name
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.settings import SettingsEditor
from hubbub.engine.administration.survey import FindRestores, ResumeHub, Survey, SuspendHub
from hubbub.engine.administration.views import (
    RestoreFailure,
    RestorePart,
    RestoreState,
    RestoreView,
)
from hubbub.ports.archives import Archives, HubArchive
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 50
_AGAIN_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
"""After so long a node that has suspended a hub takes the node that restores it for dead."""


class Suspending(Protocol):
    """The hubs of this node; `server.suspension.HubSuspension`."""

    async def suspend(self, hub: str) -> int:
        """Have nothing of the hub in memory or under way; answers how many sessions were told to
        connect again. Raises `Unavailable`."""

    async def resume(self, hub: str) -> None:
        """The hub goes on as the store has it now."""


class _Suspension(msgspec.Struct, eq=False):
    """Of a hub on this node, for the restore `restore`; `patience` ends it. `settled` is set when
    nothing of the hub is under way, or when that took too long."""

    restore: str
    patience: asyncio.TimerHandle
    settled: asyncio.Event


class Restores:
    """Of one node: one at a time, and what became of the last ones."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        editor: SettingsEditor,
        survey: Survey,
        archives: Archives,
        suspending: Suspending,
    ) -> None:
        self._store = store
        self._clock = clock
        self._editor = editor
        self._survey = survey
        self._archives = archives
        self._suspending = suspending
        self._views: dict[str, RestoreView] = {}
        self._running: str | None = None
        self._suspended: dict[str, _Suspension] = {}
        """By hub."""
        self.patience_seconds = _PATIENCE_SECONDS
        self._tasks = TaskSet()
        survey.restores = self

    # -- asking for one -------------------------------------------------------------------------

    def begin(
        self, actor: Actor, hub: str, archive: str, source: str | None, dry_run: bool
    ) -> RestoreView:
        """Begin to restore a hub, which may not exist yet, from the hub `source` of an archive on
        this node's disk. Raises `InvalidName`, and `Conflict` while another restore is running."""
        check_name(hub, "hub")
        source = check_name(hub if source is None else source, "hub")
        if self._running is not None:
            running = self._views[self._running]
            raise Conflict(f"hub {running.hub!r} is being restored; wait until that has ended")
        if len(self._views) >= _MOST_REMEMBERED:
            del self._views[next(iter(self._views))]
        view = RestoreView(
            id=secrets.token_hex(8),
            hub=hub,
            source=source,
            archive=archive,
            dry_run=dry_run,
            state="checking",
            node=self._survey.node_name,
            begun_at=self._now(),
        )
        self._views[view.id] = view
        self._running = view.id
        self._tasks.start(self._run(view.id, actor))
        return view

    async def find(self, restore: str) -> RestoreView:
        """Of any node. Raises `NotFound`."""
        for view in await self.all():
            if view.id == restore:
                return view
        raise NotFound(f"no node remembers a restore {restore[:32]!r}")

    async def all(self) -> list[RestoreView]:
        """Those that the nodes remember, the newest first."""
        if self._survey.alone:
            answers = [self.views()]
        else:
            answers, _ = await self._survey.ask(FindRestores(), list[RestoreView])
        found = [view for views in answers for view in views]
        return sorted(found, key=lambda view: view.begun_at, reverse=True)

    # -- what other nodes ask -------------------------------------------------------------------

    def views(self) -> list[RestoreView]:
        return list(self._views.values())

    async def suspend(self, hub: str, restore: str) -> int:
        if hub in self._suspended:
            raise Conflict(f"hub {hub!r} is being restored already")
        timer = asyncio.get_running_loop().call_later(
            self.patience_seconds, self._lose_patience, hub, restore
        )
        known = self._suspended[hub] = _Suspension(restore, timer, asyncio.Event())
        try:
            return await self._suspending.suspend(hub)
        finally:
            known.settled.set()

    async def resume(self, hub: str, restore: str, switched: bool) -> None:
        """A node that has not suspended a hub that was replaced, because it is new, forgets what it
        has read of it. What is suspended for another restore stays so."""
        known = self._suspended.get(hub)
        if known is not None and known.restore == restore:
            # Who restores waits less for an answer than the hub may take to come to rest.
            await known.settled.wait()
            if self._suspended.get(hub) is not known:
                return  # it was resumed meanwhile
            known.patience.cancel()
            del self._suspended[hub]
        elif known is None and switched:
            with contextlib.suppress(Unavailable):  # it goes on also where it came to no rest
                await self._suspending.suspend(hub)
        else:
            return
        try:
            await self._suspending.resume(hub)
        except HubbubError as error:
            logger.warning("hub %r cannot go on yet: %s", hub, error.message)
            self._tasks.start(self._resume_at_last(hub))

    async def _resume_at_last(self, hub: str) -> None:
        """The store is away for a while."""
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            if hub in self._suspended:
                return  # for another restore, which resumes it
            try:
                await self._suspending.resume(hub)
            except HubbubError:
                continue
            return

    def _lose_patience(self, hub: str, restore: str) -> None:
        self._tasks.start(self._resume_alone(hub, restore))

    async def _resume_alone(self, hub: str, restore: str) -> None:
        """The node that restores the hub is silent. What it may still say to the store has either
        taken effect, or is refused from now on."""
        logger.warning("hub %r goes on: nothing is heard of its restore", hub)
        while True:
            try:
                await self._store.give_up_restore(restore)
            except HubbubError:
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                break
        await self.resume(hub, restore, switched=False)

    # -- the restore ----------------------------------------------------------------------------

    async def _run(self, restore: str, actor: Actor) -> None:
        try:
            await self._restore(restore, actor)
        except HubbubError as error:
            self._fail(restore, error)
        except Exception:
            logger.exception("a restore failed")
            self._fail(restore, Internal("the restore failed; the server's log says why"))
        finally:
            self._running = None

    async def _restore(self, restore: str, actor: Actor) -> None:
        view = self._views[restore]
        archive = await self._archives.open(view.archive, view.source, view.hub)
        try:
            await self._look(restore, archive)
            if not view.dry_run:
                await self._discard_left()
                await self._replace(restore, actor, archive)
                logger.info("restored hub %r from %s", view.hub, view.archive)
        finally:
            await archive.close()
        self._set(restore, state="done", ended_at=self._now())

    async def _look(self, restore: str, archive: HubArchive) -> None:
        found = await archive.count()
        now = await self._store.count_hub_rows(self._views[restore].hub)
        self._set(
            restore,
            created_at=archive.created,
            version=archive.version,
            with_secrets=archive.with_secrets,
            total_rows=sum(found.values()),
            parts=[
                RestorePart(table, rows, now.get(table))
                for table, rows in sorted(found.items())
                if rows or now.get(table)
            ],
        )

    async def _replace(self, restore: str, actor: Actor, archive: HubArchive) -> None:
        try:
            await self._store.begin_restore(restore)
            await self._load(restore, archive)
            await self._switch(restore, actor)
        except Exception:
            with contextlib.suppress(HubbubError):  # else the next restore does it
                await self._store.discard_restore(restore)
            raise
        self._set(restore, state="clearing")
        await self._store.discard_restore(restore)

    async def _load(self, restore: str, archive: HubArchive) -> None:
        self._set(restore, state="loading")
        while (part := await archive.next_rows()) is not None:
            ids = await self._store.stage_rows(restore, part.table, part.rows)
            if part.ids:
                await archive.map_ids(part.table, part.ids, ids)
            self._set(restore, rows=self._views[restore].rows + len(part.rows))
        for revocation in await archive.revocations():
            await self._store.save_revocation(revocation)

    async def _switch(self, restore: str, actor: Actor) -> None:
        view = self._set(restore, state="switching")
        about = {
            "archive": view.archive,
            "source": view.source,
            "createdAt": view.created_at,
            "rows": view.rows,
        }
        note = self._editor.audit.entry(actor, "hub.restore", view.hub, after=about)
        async with self._editor.lock(view.hub):
            switched = False
            try:
                await self._suspend_everywhere(restore)
                await self._store.switch_hub(restore, view.hub, note)
                switched = True
            finally:
                await self._survey.ask(ResumeHub(view.hub, restore, switched), Any)

    async def _suspend_everywhere(self, restore: str) -> None:
        """Raises `Unavailable` where a node does not answer."""
        hub = self._views[restore].hub
        told, silent = await self._survey.ask(SuspendHub(hub, restore), int)
        if silent:
            raise Unavailable(
                f"hub {hub!r} is as it was: {', '.join(silent)} did not suspend it in time"
            )
        self._set(restore, sessions=sum(told))

    async def _discard_left(self) -> None:
        """What restores have left that were killed, unless a node is silent, whose restore may
        be among them."""
        answers, silent = await self._survey.ask(FindRestores(), list[RestoreView])
        if silent:
            return
        running = {view.id for views in answers for view in views if view.ended_at is None}
        for left in await self._store.read_restores():
            if left not in running:
                await self._store.discard_restore(left)

    # -- life -----------------------------------------------------------------------------------

    async def clear(self) -> None:
        """At start: remove what a restore that was killed has left on this node's disk, and, beside
        everything else, in a store that no other node uses."""
        await self._archives.clear()
        if self._survey.alone:
            self._tasks.start(self._discard_left())

    async def stop(self) -> None:
        """What is under way ends; the next start removes what it has left."""
        await self._tasks.end()

    def _fail(self, restore: str, error: HubbubError) -> None:
        failure = RestoreFailure(error.code, error.message)
        view = self._set(restore, state="failed", ended_at=self._now(), error=failure)
        logger.warning("hub %r was not restored: %s", view.hub, error.message)

    def _set(
        self, restore: str, *, state: RestoreState | None = None, **changes: Any
    ) -> RestoreView:
        view = self._views[restore]
        changed = msgspec.structs.replace(view, state=state or view.state, **changes)
        self._views[restore] = changed
        return changed

    def _now(self) -> int:
        return int(self._clock.now() * 1000)

"""Restores one hub from a backup while the server runs.

Rows are staged beside those of the hub, in slices, while all hubs stay in service. Then the hub is
suspended on all nodes, the store replaces its rows in one transaction, and the hub resumes. Until
that transaction the hub is unchanged; after a crash it is either as before or fully restored."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from hubbub.domain.asking import NodeRequest
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
from hubbub.engine.rooms import NodeHandler
from hubbub.ports import randomness
from hubbub.ports.archives import Archives, HubArchive
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 50
_AGAIN_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
"""After this time without a sign of life, a node that has suspended a hub considers the restoring
node dead."""


class Suspending(Protocol):
    """Suspends hubs on this node; implemented by `server.suspension.HubSuspension`."""

    async def suspend(self, hub: str) -> int:
        """Unloads the hub; returns the number of sessions that were told to reconnect. Raises
        `Unavailable`."""

    async def resume(self, hub: str) -> None:
        """Resumes the hub with the store's current data."""


class _Suspension(msgspec.Struct, eq=False):
    """The suspension of a hub on this node for the restore `restore`; `patience` ends it. `settled`
    is set when no work of the hub is in progress, or after a timeout."""

    restore: str
    patience: asyncio.TimerHandle
    settled: asyncio.Event


class Restores:
    """Runs one restore at a time on a node, and keeps the results of the last ones."""

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
        """Suspensions by hub."""
        self.patience_seconds = _PATIENCE_SECONDS
        self._tasks = TaskSet()
        self.node_requests: Mapping[type[NodeRequest[Any]], NodeHandler] = {
            SuspendHub: self._suspend_for,
            ResumeHub: self._resume_for,
            FindRestores: self._remembered,
        }
        """See `Room.node_requests`."""

    # -- asking for one -------------------------------------------------------------------------

    def begin(
        self, actor: Actor, hub: str, archive: str, source: str | None, dry_run: bool
    ) -> RestoreView:
        """Starts to restore a hub, which need not exist, from the hub `source` of an archive on
        this node's disk. Raises `InvalidName`, and `Conflict` while another restore is running."""
        check_name(hub, "hub")
        source = check_name(hub if source is None else source, "hub")
        if self._running is not None:
            running = self._views[self._running]
            raise Conflict(f"hub {running.hub!r} is being restored; wait until that has ended")
        if len(self._views) >= _MOST_REMEMBERED:
            del self._views[next(iter(self._views))]
        view = RestoreView(
            id=randomness.token_hex(8),
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
        """Returns a restore on any node. Raises `NotFound`."""
        for view in await self.all():
            if view.id == restore:
                return view
        raise NotFound(f"no node remembers a restore {restore[:32]!r}")

    async def all(self) -> list[RestoreView]:
        """The restores that the nodes still remember, the newest first."""
        if self._survey.alone:
            answers = [self._all_views()]
        else:
            answers, _ = await self._survey.ask(FindRestores())
        found = [view for views in answers for view in views]
        return sorted(found, key=lambda view: view.begun_at, reverse=True)

    # -- what other nodes ask -------------------------------------------------------------------

    async def _suspend_for(self, _: str, request: SuspendHub) -> int:
        """Returns the number of sessions that were told to reconnect."""
        return await self.suspend(request.hub, request.restore)

    async def _resume_for(self, _: str, request: ResumeHub) -> None:
        await self.resume(request.hub, request.restore, request.switched)

    async def _remembered(self, _: str, __: FindRestores) -> list[RestoreView]:
        return self._all_views()

    def _all_views(self) -> list[RestoreView]:
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
        """A node that did not suspend a replaced hub, because it is new, drops what it has read of
        the hub. A hub suspended for another restore stays suspended."""
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
            logger.warning("hub %r cannot be resumed yet: %s", hub, error)
            self._tasks.start(self._resume_at_last(hub))

    async def _resume_at_last(self, hub: str) -> None:
        """Retries while the store is unavailable."""
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
        """Resumes the hub after the restoring node fell silent. Writes of that node either have
        taken effect or will be refused."""
        logger.warning("hub %r is resumed: the restoring node does not respond", hub)
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
                await self._store.audited(note).switch_hub(restore, view.hub)
                switched = True
            finally:
                await self._survey.ask(ResumeHub(view.hub, restore, switched))

    async def _suspend_everywhere(self, restore: str) -> None:
        """Raises `Unavailable` if a node does not respond."""
        hub = self._views[restore].hub
        told, silent = await self._survey.ask(SuspendHub(hub, restore))
        if silent:
            raise Unavailable(
                f"hub {hub!r} is as it was: {', '.join(silent)} did not suspend it in time"
            )
        self._set(restore, sessions=sum(told))

    async def _discard_left(self) -> None:
        """Deletes the staged rows of interrupted restores, unless a silent node may still be
        restoring."""
        answers, silent = await self._survey.ask(FindRestores())
        if silent:
            return
        running = {view.id for views in answers for view in views if view.ended_at is None}
        for left in await self._store.read_restores():
            if left not in running:
                await self._store.discard_restore(left)

    # -- life -----------------------------------------------------------------------------------

    async def clear(self) -> None:
        """At the start: deletes what an interrupted restore left on this node's disk and, in a
        store that no other node uses, its staged rows."""
        await self._archives.clear()
        if self._survey.alone:
            self._tasks.start(self._discard_left())

    async def stop(self) -> None:
        """Cancels the restore in progress; the next start removes its remains."""
        await self._tasks.end()

    def _fail(self, restore: str, error: HubbubError) -> None:
        failure = RestoreFailure(error.code, error.message)
        view = self._set(restore, state="failed", ended_at=self._now(), error=failure)
        logger.warning("hub %r was not restored: %s", view.hub, error)

    def _set(
        self, restore: str, *, state: RestoreState | None = None, **changes: Any
    ) -> RestoreView:
        view = self._views[restore]
        changed = msgspec.structs.replace(view, state=state or view.state, **changes)
        self._views[restore] = changed
        return changed

    def _now(self) -> int:
        return int(self._clock.now() * 1000)

"""The conventions of NATS micro-services: discovery, description and statistics.

Tools such as `nats micro ls` send requests to `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`, for all
services, for those with a name, or for one instance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.ports.broker import Broker, BrokerReply, BrokerRequest
from hubbub.ports.clock import Clock

_PREFIX = "$SRV"
_TYPE = "io.nats.micro.v1.{}_response"


class EndpointStats(msgspec.Struct):
    """Statistics of one endpoint since the start; times in nanoseconds."""

    name: str
    subject: str
    queue_group: str
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0
    average_processing_time: int = 0

    def count(self, seconds: float, error: HubbubError | None) -> None:
        self.num_requests += 1
        self.processing_time += int(seconds * 1e9)
        self.average_processing_time = self.processing_time // self.num_requests
        if error is not None:
            self.num_errors += 1
            self.last_error = f"{error.http_status}:{error.code}"


class MicroService:
    """Responds for a service with these endpoints. `about` describes an endpoint."""

    def __init__(
        self,
        name: str,
        instance: str,
        version: str,
        description: str,
        endpoints: dict[str, EndpointStats],
        about: dict[str, str],
        clock: Clock,
    ) -> None:
        self._identity = {"name": name, "id": instance, "version": version, "metadata": {}}
        self._description = description
        self._endpoints = endpoints
        self._about = about
        self._started = datetime.fromtimestamp(clock.now(), UTC).isoformat().replace("+00:00", "Z")
        self._clock = clock

    async def start(self, broker: Broker) -> None:
        """Every instance responds: there is no queue group."""
        name, instance = self._identity["name"], self._identity["id"]
        for verb, answer in (("PING", self._ping), ("INFO", self._info), ("STATS", self._stats)):

            async def reply(_: BrokerRequest, answer: Any = answer) -> BrokerReply:
                return BrokerReply(msgspec.json.encode(answer()))

            for subject in (verb, f"{verb}.{name}", f"{verb}.{name}.{instance}"):
                await broker.serve(f"{_PREFIX}.{subject}", "", reply)

    def _ping(self) -> dict[str, Any]:
        return {"type": _TYPE.format("ping"), **self._identity}

    def _info(self) -> dict[str, Any]:
        endpoints = [
            {
                "name": each.name,
                "subject": each.subject,
                "queue_group": each.queue_group,
                "metadata": {"description": self._about[each.name]},
            }
            for each in self._endpoints.values()
        ]
        return {
            "type": _TYPE.format("info"),
            **self._identity,
            "description": self._description,
            "endpoints": endpoints,
        }

    def _stats(self) -> dict[str, Any]:
        return {
            "type": _TYPE.format("stats"),
            **self._identity,
            "started": self._started,
            "endpoints": list(self._endpoints.values()),
        }

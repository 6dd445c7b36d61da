"""Fair shares: how much of a bounded resource each tenant may take."""

from __future__ import annotations


class FairShare:
    """A tenant may take one more unit while it holds less than what is free. A single tenant gets
    half of the resource; n tenants with unlimited demand get 1/(n+1) each, and as much is left for
    the next tenant. (Switches share buffers by the same rule, a dynamic threshold.)"""

    __slots__ = ("_by_tenant", "taken", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._by_tenant: dict[str, int] = {}

    def may_take(self, tenant: str) -> bool:
        return self._by_tenant.get(tenant, 0) < self.total - self.taken

    def take(self, tenant: str) -> None:
        self.taken += 1
        self._by_tenant[tenant] = self._by_tenant.get(tenant, 0) + 1

    def give_back(self, tenant: str) -> None:
        self.taken -= 1
        left = self._by_tenant[tenant] - 1
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]

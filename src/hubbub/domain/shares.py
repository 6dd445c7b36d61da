"""Fair shares: how much of a bounded whole each tenant may take."""

from __future__ import annotations


class FairShare:
    """A tenant may take one more while it has less than what is left. So a tenant alone gets half
    of the whole, of n tenants that want all they can get each has 1/(n+1), and whoever comes next
    finds as much. (Buffers of switches are shared by the same rule, as a dynamic threshold.)"""

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

"""All attacks; importing this package fills `attack.arena.ATTACKS`."""

from attack.attacks import (  # noqa: F401
    guessing,
    mercure,
    mqtt,
    outward,
    pages,
    payloads,
    questions,
    rights,
    storms,
    strangers,
    tenants,
    zeromq,
)

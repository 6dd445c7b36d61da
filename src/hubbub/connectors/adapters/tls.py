"""TLS connections of adapters that do not use HTTP."""

from __future__ import annotations

import ssl
from typing import Annotated, Literal

from msgspec import Meta

from hubbub.ports.adapters import AdapterFailed

Security = Literal["tls", "starttls", "none"]
"""`tls`: from the first byte. `starttls`: after a command. `none`: never."""
Pem = Annotated[str, Meta(max_length=100_000)]
_SPACES = r"\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff"
Host = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^[^{_SPACES}/@]+$")]
Port = Annotated[int, Meta(ge=1, le=65535)]


def tls_context(authorities: str) -> ssl.SSLContext:
    """Trusts the given certificates in PEM, or else the system's. Raises `AdapterFailed`."""
    try:
        return ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError):
        raise AdapterFailed("certificateAuthorities holds no certificate in PEM") from None

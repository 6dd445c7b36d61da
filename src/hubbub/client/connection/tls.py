"""TLS trust of a client: the certificates that it accepts."""

from __future__ import annotations

import ssl
from pathlib import Path

from hubbub.client.errors import UntrustedServer
from hubbub.domain.errors import BadRequest


def trusting_context(ca_file: Path | None = None, verify: bool = True) -> ssl.SSLContext:
    """Trusts the authorities of `ca_file` (PEM), or else the system's, which the environment
    variable `SSL_CERT_FILE` overrides. Raises `BadRequest` if the file contains no certificates."""
    if not verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:  # also SSLError
        why = error.strerror if isinstance(error, FileNotFoundError) else "no PEM certificates"
        raise BadRequest(f"{ca_file} cannot be used as the authorities to trust: {why}") from None


def check_trust(error: BaseException, url: str) -> None:
    """Raises `UntrustedServer` if the server's certificate caused the error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        raise UntrustedServer(
            f"the certificate of the server at {url} is not trusted: {error.verify_message}"
        ) from None


def without_tls(url: str) -> str:
    """A clause for error messages that suggests TLS; empty for an encrypted address."""
    scheme = url.partition("://")[0].lower()
    if scheme not in ("ws", "http"):
        return ""
    return f"; if it speaks TLS, its address begins with {scheme}s://"

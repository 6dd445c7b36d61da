"""The location of a warehouse or a journal: a folder, or a URL of an object store.

Delta logs are written through `deltalake`, data files through Arrow. Both take credentials and
endpoints from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from hubbub.pipeline.errors import PipelineError

_AZURE: Final = ("az", "abfs", "abfss")


class Location:
    """A folder or URL. `uri` is an absolute path, or a URL without a trailing slash."""

    def __init__(self, place: str | Path) -> None:
        text = str(place)
        if text.startswith("file://"):
            text = text.removeprefix("file://")
        self.is_local = "://" not in text
        self.uri = str(Path(text).absolute()) if self.is_local else text.rstrip("/")

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.uri}/{name}")

    @property
    def path(self) -> Path:
        """The path of a local location. Raises `PipelineError` for a URL."""
        if not self.is_local:
            raise PipelineError(f"{self.uri} is no folder of this machine")
        return Path(self.uri)

    def open(self) -> tuple[fs.FileSystem, str]:
        """Returns the file system, and the location's path in it. Raises `PipelineError`."""
        return _opened(self.uri)


@lru_cache(maxsize=64)
def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    parts = urlsplit(uri)
    try:
        if parts.scheme in _AZURE:
            return _azure(), f"{parts.netloc}{parts.path}"
        files, path = fs.FileSystem.from_uri(uri)
        return files, path
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(
            f"{parts.scheme}://{parts.hostname} cannot be opened ({error}); give a folder, or a URL"
            " such as s3://bucket/warehouse"
        ) from error


def _azure() -> fs.FileSystem:
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    endpoint = urlsplit(os.environ.get("AZURE_STORAGE_ENDPOINT", ""))
    if not endpoint.netloc:
        return fs.AzureFileSystem(account, account_key=key)
    return fs.AzureFileSystem(
        account,
        account_key=key,
        blob_storage_authority=endpoint.netloc,
        blob_storage_scheme=endpoint.scheme,
        dfs_storage_authority=endpoint.netloc,
        dfs_storage_scheme=endpoint.scheme,
    )

"""The capacity of a node, a setting of a warehouse from which the forecast computes the number of
nodes."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.pipeline.errors import WarehouseUnreadable
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.views.forecast import MEASURED, Capacity

_FILE: Final = "_capacity.json"


def read_capacity(warehouse: Location) -> Capacity:
    """The configured capacity, or else the measured default. Raises `WarehouseUnreadable`."""
    files, folder = warehouse.open()
    try:
        with files.open_input_stream(f"{folder}/{_FILE}") as stream:
            return msgspec.json.decode(stream.read(), type=Capacity)
    except FileNotFoundError:
        return MEASURED
    except msgspec.DecodeError as error:
        raise WarehouseUnreadable(
            f"{warehouse}/{_FILE} cannot be read ({error}); remove it, and set it again with"
            " `hubbub pipeline capacity`"
        ) from error


def write_capacity(warehouse: Location, capacity: Capacity) -> None:
    files, folder = warehouse.open()
    if warehouse.is_local:
        files.create_dir(folder, recursive=True)
    with files.open_output_stream(f"{folder}/{_FILE}") as stream:
        stream.write(msgspec.json.encode(capacity))

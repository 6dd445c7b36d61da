"""Documents of channels: read and changed at the channel's owner (`reader`, `judge`, `snapshots`),
and served to sessions and gateways (`service`)."""

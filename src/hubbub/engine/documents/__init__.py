"""Documents of channels: read and changed at the channel's owner (`reader`, `judge`, `snapshots`),
asked for by sessions and gateways (`service`)."""

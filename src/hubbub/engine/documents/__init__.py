"""Documents of channels: kept and changed at the channel's owner (`keeper`, `snapshots`), asked for
by sessions and gateways (`service`)."""

"""The events of notifications on a socket."""

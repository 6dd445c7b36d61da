"""The events of documents on a socket."""

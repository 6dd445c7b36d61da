"""The JSON of the socket protocol and of the HTTP API."""

"""Command plugins in worker processes, behind `hubbub.ports.plugins`."""

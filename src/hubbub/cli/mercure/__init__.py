"""The command `hubbub mercure`."""

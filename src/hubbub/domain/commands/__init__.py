"""Commands, after Hubiquitus: structured messages, owned channels, commands and results."""

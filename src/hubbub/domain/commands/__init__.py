"""Commands, after Hubiquitus: structured messages, channels with an owner, commands and results."""

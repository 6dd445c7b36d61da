"""ZeroMQ: frames, commands and answers."""

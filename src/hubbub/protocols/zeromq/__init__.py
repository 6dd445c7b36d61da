"""The ZeroMQ protocol: frames, commands and responses."""

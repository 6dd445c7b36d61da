"""An inbox: messages are processed exactly once."""

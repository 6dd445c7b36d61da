"""An inbox: messages whose effects happen once."""

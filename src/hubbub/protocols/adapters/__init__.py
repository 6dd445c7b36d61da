"""How messages of peers look in e-mail, chat, feeds and JSON: each way without I/O."""

"""Conversion of peers' messages to and from e-mail, chat, feeds and JSON, without I/O."""

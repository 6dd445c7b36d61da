"""Hubbub: one message hub for applications, services, devices and people."""

__version__ = "0.1.0"

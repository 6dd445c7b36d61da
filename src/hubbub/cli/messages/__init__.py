"""Commands that publish, subscribe, put, get and call."""

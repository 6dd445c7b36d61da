"""Commands that administer a server over its admin API."""

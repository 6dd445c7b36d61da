"""The dashboard: pages, login, and the admin API for browsers that authenticate with a cookie."""

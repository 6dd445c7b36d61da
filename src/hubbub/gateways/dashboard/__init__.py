"""The dashboard's door: pages, login, and the admin API for a browser that proves itself by a
cookie."""

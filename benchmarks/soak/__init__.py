"""A soak: hours of ordinary life in minutes, with restarts and crashes, and nothing may be lost."""

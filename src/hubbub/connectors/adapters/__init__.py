"""The adapters that come with the hub, behind `ports.adapters`: a module for each medium."""

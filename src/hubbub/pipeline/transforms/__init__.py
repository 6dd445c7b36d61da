"""From events to rows: pure functions of frames or Arrow tables, one subject in each module."""

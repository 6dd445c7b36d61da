"""Transforms of events to rows: pure functions of frames or Arrow tables, one subject per
module."""

"""Local copies of documents: edits are visible at once, survive a crash and are applied once."""

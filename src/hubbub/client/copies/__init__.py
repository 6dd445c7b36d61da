"""Local copies of documents: edits that show at once, survive a crash and are applied once."""

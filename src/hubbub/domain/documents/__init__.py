"""Documents: JSON values with bytes, and the operations that change them.

Pure: the owner of a channel applies changes (`engine.documents`), clients apply updates.
"""

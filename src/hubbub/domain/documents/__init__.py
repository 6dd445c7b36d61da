"""Documents: JSON values with bytes, the operations that change them, and what they become.

Pure: the owner of a channel applies changes (`engine.documents`), clients apply updates.
"""

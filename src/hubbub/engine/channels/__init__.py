"""A channel at its owner: order, appends, presence, retained messages, history, retention."""

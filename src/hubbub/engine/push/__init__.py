"""Push: which devices a message goes to, and how it gets there, beside the channels."""

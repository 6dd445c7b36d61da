"""Who someone is: authentication, tokens, foreign issuers, revocations."""

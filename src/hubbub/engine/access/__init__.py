"""Authentication: tokens, foreign issuers, revocations, access of subscribers."""

"""Who may do what: tokens, keys, grants and their revocation."""

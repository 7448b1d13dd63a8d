"""What an agent may propose: tokens, keys, grants and the values that revoke them.

Values and cryptography only. Below this package there is nothing of ours; above it are execution, adapters and
server. It has no database, reads no environment, and gets the time (integer epoch seconds) and new ids from its
callers. The only input it fetches itself are key files (`keyfile`).

    identifiers  strict_json  errors         leaves
    resources    details                     what is granted, as values and from JSON
    keyfile → keys → jwks → jws → token      from a file of keys to a verified Capability
    issuer                                   from a decision to a signed token
    grant        revocation                  from a Capability to lasting authority, and what ends it
    credential                               finds tokens where none may be
"""

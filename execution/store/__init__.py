"""Journal, registry and outbox: the only SQL of the execution."""

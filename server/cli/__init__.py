"""The remit command."""

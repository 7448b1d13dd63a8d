"""Command buses."""

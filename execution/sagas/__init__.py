"""Saga definitions."""

"""Tests of Remit."""

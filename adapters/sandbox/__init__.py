"""Loopback stand-ins with fault switches."""

"""Stateful stand-ins on loopback, with fault switches: a site, its cache, a repository, checks, webhooks, a mail relay.

They ship with the product: the demo and a fresh configuration run against them, and authors of adapters test with them.
They agree with the real systems on everything that the conformance suites ask. `python -m adapters.sandbox` starts them
as a process of its own; `adapters.sandbox.running.Sandbox` inside a running event loop.
"""

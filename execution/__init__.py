"""How an accepted intent is carried out: journal, orchestrator, reconciliation."""

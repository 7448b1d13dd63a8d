"""Evals: what an agent is told in many situations, held against what is really there."""

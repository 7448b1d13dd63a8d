"""Alembic's environment, shipped in the package. Used by `migrate` and by nothing else."""

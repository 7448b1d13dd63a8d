"""`python -m server` is `remit`."""

from server.cli.main import main

main()

"""What the fork server imports once, so that no child has to."""

import adapters.sandbox.__main__
import server.app
import server.cli.main
import server.outside
import tests.crash.child
import tests.stage.sandbox
import tests.stage.scene

__all__ = ["adapters", "server", "tests"]

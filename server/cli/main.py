"""`remit`: the commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from capabilities.errors import CapabilityError, CredentialError, IssueCode, IssueError, KeyFileError, ScopeError
from execution.store.errors import StoreError, StoreUnusable
from server.cli import (
    acted,
    authority,
    checkpoint,
    commands,
    content,
    deciding,
    examining,
    inbox,
    keys,
    planning,
    processes,
    proofs,
    proposing,
    reviewing,
    revoking,
    setup,
    watching,
)
from server.cli.output import CommandFailed, Exit, Output
from server.config import ConfigError
from server.private_files import told

app = typer.Typer(
    name="remit",
    help="AI proposes, governance authorises, the journal remembers, people decide what machines cannot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (
    setup,
    processes,
    authority,
    keys,
    revoking,
    commands,
    watching,
    content,
    deciding,
    proposing,
    planning,
    inbox,
    reviewing,
    examining,
    acted,
    checkpoint,
    proofs,
):
    module.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    code = run(sys.argv[1:] if arguments is None else list(arguments))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = Output(as_json=False).unread()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    output = Output(as_json="--json" in arguments)
    try:
        words = ["version"] if list(arguments) == ["--version"] else list(arguments)
        result = app(args=words, prog_name="remit", standalone_mode=False)
    except CommandFailed as error:
        return output.fail(error)
    except typer.TyperException as error:
        return _misused(output, error)
    except (typer.Abort, KeyboardInterrupt):
        return output.fail(CommandFailed("interrupted", "Interrupted."))
    except ConfigError as error:
        return output.fail(CommandFailed(error.code, str(error), error.fix))
    except CapabilityError as error:
        return output.fail(_from_capability(error))
    except StoreUnusable as error:
        return output.fail(CommandFailed(error.code, error.what, f"{error.fix[:1].upper()}{error.fix[1:]}."))
    except StoreError as error:
        return output.fail(CommandFailed(error.code, str(error)))
    except BrokenPipeError:
        return output.unread()
    except OSError as error:
        return output.fail(CommandFailed("os_error", f"{error.filename or 'system'}: {error.strerror or 'failed'}"))
    return result if isinstance(result, int) else Exit.OK


def _misused(output: Output, error: typer.TyperException) -> int:
    """Wrong words. A group that was called without a command shows its help, and programs one line."""
    context = getattr(error, "ctx", None)
    if context is None:
        return output.fail(CommandFailed("usage", error.format_message(), "See `remit --help`.", Exit.USAGE))
    fix, message = f"See `{context.command_path} --help`.", error.format_message().replace("Value error, ", "")
    if message == context.get_help():
        if not output.as_json:
            print(message, file=sys.stderr)
            return Exit.USAGE
        message = "A command is missing."
    return output.fail(CommandFailed("usage", message, fix, Exit.USAGE))


def _from_capability(error: CapabilityError) -> CommandFailed:
    match error:
        case KeyFileError():
            message, fix = told(error)
            return CommandFailed(str(error.code), message, fix, Exit.AUTH)
        case IssueError(code=IssueCode.REVOKED):
            return CommandFailed(
                str(error.code), f"The token was not issued: its {error.field} is revoked", _BACK, Exit.AUTH
            )
        case IssueError():
            return CommandFailed(str(error.code), f"The token was not issued: {error}", _ISSUE_FIX, Exit.AUTH)
        case CredentialError() | ScopeError():
            return CommandFailed(str(error.code), f"Not permitted: {error}", "", Exit.AUTH)
        case _:
            return CommandFailed(str(error.code), f"Not permitted: {error}", "", Exit.AUTH)


_BACK = "See `remit freeze ls`; `remit reinstate` takes a revocation back."
_ISSUE_FIX = "See `remit decision ls`; open another decision, or ask for less."

if __name__ == "__main__":
    main()

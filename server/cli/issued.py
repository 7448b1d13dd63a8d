"""How a token that was issued is shown: its text, the file it lies in, or what a host has to be told about it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.cli.output import CommandFailed, Exit, Output, fields
from server.client_config import FILES, HEADERLESS, TOKEN_VARIABLE, Host, Reach, Way, configuration

if TYPE_CHECKING:
    from capabilities.token import Claims
    from server.app import Installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the operator asked to see. With `host` the token always lies in a file, whose path is absolute."""

    out: Path | None
    host: Host | None
    way: Way
    url: str | None
    as_json: bool

    def checked(self, at: Installation, agent: str) -> Shown:
        """The same with its gaps filled, before anything is issued."""
        if self.host is None:
            if self.url is not None or self.way is not Way.CONNECT:
                raise CommandFailed("usage", "--url and --transport go with --for.", "Add --for HOST.", Exit.USAGE)
            return self
        if self.host in HEADERLESS and self.way is Way.HTTP:
            fix = "Leave --transport out: it then starts `remit connect`, which sends the token."
            raise CommandFailed("usage", f"{self.host} cannot send a header of its own.", fix, Exit.USAGE)
        out = self.out or at.config.home / "tokens" / agent
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return replace(self, out=out.expanduser().absolute(), url=self._address(at))

    def show(self, at: Installation, claims: Claims, raw: str) -> None:
        """Print it: to stdout what is to be copied, remarks to stderr."""
        from server.results import moment

        output = Output(self.as_json)
        data: dict[str, Any] = {
            "token_id": claims.jti,
            "decision_id": claims.dec,
            "agent": claims.sub,
            "expires": claims.exp,
        }
        told = data | {"expires": moment(claims.exp * 1_000)}
        data |= {"file": str(self.out)} if self.out is not None else {"token": raw}
        if self.host is not None:
            self._show_configuration(at, self.host, data)
        elif self.out is None and not self.as_json:
            output.note(f"{claims.jti} for {claims.sub}, decision {claims.dec}")
            print(raw)
        else:
            output.show(data, fields([*(data | told).items()]))

    def _show_configuration(self, at: Installation, host: Host, data: dict[str, Any]) -> None:
        from server.config import own_command

        assert self.out is not None, "a host is told where the token lies"
        reach = Reach(remit=own_command(), url=self.url or "", home=at.config.home, token_file=self.out)
        document = configuration(host, self.way, reach)
        output = Output(self.as_json)
        if self.as_json:
            output.show(data | {"host": host.value, "configuration": document})
            return
        print(json.dumps(document, indent=2))
        output.note(f"For {FILES[host]}. The token lies in {self.out} for 15 minutes at most; --watch renews it there.")
        for remark in self._remarks(at, host):
            output.note(remark)

    def _remarks(self, at: Installation, host: Host) -> list[str]:
        if self.way is Way.STDIO:
            return ["The gateway and its credentials then run as the agent's own user: `--transport connect` is safer."]
        remarks = []
        if self.url == at.config.settings.http.url() and not at.config.settings.http.enabled:
            remarks.append(f"The gateway must run: remit serve --http --home {at.config.home}")
        if self.way is Way.HTTP and host is Host.CURSOR:
            remarks.append(f"Cursor takes the token from {TOKEN_VARIABLE} in its own environment.")
        if self.way is Way.HTTP and host is Host.INSPECTOR:
            remarks.append("This document holds the token: delete it afterwards.")
        return remarks

    def _address(self, at: Installation) -> str | None:
        from server.config_rules import is_safe_url

        url = self.url or at.config.settings.http.url()
        if self.way is Way.STDIO:
            return None
        if url is None:
            fix = "Set [http] public_url, or name the gateway with --url https://…."
            raise CommandFailed("no_address", "It is not known where agents reach the gateway.", fix)
        if not is_safe_url(url):
            fix = "Use https://…; http:// only for an address of this machine."
            raise CommandFailed("usage", "A token is not sent to that address.", fix, Exit.USAGE)
        return url

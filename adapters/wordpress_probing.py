"""What stands in the way of using a WordPress site, in words for the person who sets it up."""

from __future__ import annotations

from typing import Final

from execution.ports import Severity, Symptom

_ADDRESS: Final = "Look at the site's address in remit.toml, and whether it can be reached from this machine."
_ROLE: Final = "Give the account the role Editor."
_FIXES: Final = {
    "not_authorised": "Make a new application password for that user (Users, Profile) and put it into the file.",
    "cannot_publish": _ROLE,
    "cannot_see_others": _ROLE + " Without it nobody can tell whether something of ours is absent.",
    "cannot_upload": _ROLE + " Without it no featured image can be stored.",
    "plugin_missing": "Copy wordpress/remit-business-key.php of this home into the site's wp-content/mu-plugins, or "
    'set key_strategy = "slug".',
    "unreadable_answer": "Something before WordPress answers (a firewall, a maintenance page): let /wp-json through.",
}


def symptoms(wrong: tuple[str, ...], key_strategy: str) -> tuple[Symptom, ...]:
    """`wrong`: the codes that `WordPressSite.check` found; none is a site that can be used."""
    if not wrong:
        held = "marker in a slug" if key_strategy == "slug" else "business key in the site's database"
        return (Symptom(code="site_ready", detail=f"the account is an editor; key strategy {key_strategy} ({held})"),)
    return tuple(
        Symptom(code=code, severity=Severity.PROBLEM, detail=f"key strategy {key_strategy}", fix=_fix(code))
        for code in wrong
    )


def _fix(code: str) -> str:
    return _FIXES.get(code, _ADDRESS)

"""Every secret that a worker is about to hold is known to whoever keeps logs clean."""

from pathlib import Path

from server.config import load_config
from server.outside import secrets_of

FILES = ("blog", "zone", "publications", "monitoring", "api", "relay", "hook")
TEXT = """
[installation]
id = "inst_1"
[gateway]
issuer = "https://issuer.example"
audience = "https://gateway.example"
tenant = "acme"
[site.blog]
url = "https://blog.example"
user = "remit"
password_file = "blog"
[site.blog.cloudflare]
zone = "00000000000000000000000000000000"
token_file = "zone"
[publications]
url_file = "publications"
[monitoring]
kind = "healthchecks"
url_file = "monitoring"
api_key_file = "api"
[mail]
host = "relay.example"
sender = "remit@blog.example"
user = "remit"
password_file = "relay"
[notify.team]
recipients = ["a@blog.example"]
[notify.hook]
url = "https://hook.example/"
secret_file = "hook"
"""


def test_no_configured_secret_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "remit.toml").write_text(TEXT)
    for name in FILES:
        (tmp_path / name).write_text(f"canary-{name}\n")
        (tmp_path / name).chmod(0o600)
    config = load_config(tmp_path)
    assert sorted(secret.value for secret in secrets_of(config)) == sorted(f"canary-{name}" for name in FILES)
    assert {path.name for path in config.credential_files()} == set(FILES)

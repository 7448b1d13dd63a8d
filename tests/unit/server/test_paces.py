"""How much each configured system may be asked, by the name under which the engine keeps its pace."""

from pathlib import Path

from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from server.app import paces
from server.config import parse_settings

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
concurrent = 4
[site.blog.cloudflare]
zone = "00000000000000000000000000000000"
per_minute = 60
burst = 20
[site.shop]
url = "https://shop.example"
user = "remit"
[site.shop.cloudflare]
zone = "11111111111111111111111111111111"
concurrent = 2
per_minute = 5
burst = 25
[github]
owner = "o"
repo = "r"
[publications]
url = "sqlite://"
[monitoring]
url = "sqlite://"
concurrent = 1
[mail]
host = "127.0.0.1"
sender = "remit@blog.example"
[notify.team]
recipients = ["a@blog.example"]
concurrent = 1
[notify.hook]
url = "https://hook.example/"
concurrent = 3
"""


def test_systems_that_share_an_account_share_the_slowest_pace() -> None:
    found = paces(parse_settings(TEXT, Path("remit.toml")))
    cloudflare, webhook = found["cloudflare"], found["webhook"]
    assert (cloudflare.concurrent, cloudflare.per_minute, cloudflare.burst) == (2, 5.0, 20)
    assert (webhook.concurrent, webhook.per_minute) == (3, None)
    assert (found["wordpress/blog"].concurrent, found["monitoring"].concurrent) == (4, 1)
    assert found["github"].concurrent == 1


def test_every_step_of_a_publication_finds_the_pace_of_its_system() -> None:
    found = paces(parse_settings(TEXT, Path("remit.toml")))
    assert {step.action.paced_as("blog") for step in SEO_ARTICLE_PUBLISH_V1.steps} <= set(found)

"""Configuration errors name the file, the key and what to do; secrets come from private files or the environment."""

import os
import re
from pathlib import Path

import pytest

from server.config import ConfigError, load_config, parse_settings
from server.outside import bounds_of, make_tables, repository_of, secrets_of
from server.publishing import publish_settings
from tests.repo.tree import ROOT

MINIMAL = """
[installation]
id = "inst_01kb9zq3m4n5p6q7r8s9t0v1w2"
[gateway]
issuer = "https://issuer.example"
audience = "https://gateway.example"
tenant = "acme"
"""
SITE = MINIMAL + '[site.blog]\nurl = "https://blog.example"\nuser = "remit"\n'


def home_with(folder: Path, text: str) -> Path:
    (folder / "remit.toml").write_text(text)
    return folder


def complaint(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_settings(text, Path("remit.toml"))
    return caught.value


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        (SITE + "max_runs = 3", "site.blog.max_runs", "max_run_s"),
        (MINIMAL + "[sites]", "sites", "site"),
        (SITE + "[site.blog.require]\ntitel = true", "site.blog.require.titel", "title"),
        (MINIMAL + '[mail]\nhost = "h"\nsendr = "s"', "mail.sendr", "sender"),
        (MINIMAL + "[engine]\ntimescale = 2", "engine.timescale", "time_scale"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(text: str, where: str, fix: str) -> None:
    error = complaint(text)
    assert error.where == f"remit.toml, {where}"
    assert f"`{fix}`" in error.fix


def test_a_time_zone_that_does_not_exist_is_named() -> None:
    assert complaint(SITE + 'timezone = "Europe/Atlantis"').where == "remit.toml, site.blog.timezone"
    assert parse_settings(SITE + 'timezone = "Europe/Berlin"', Path("remit.toml")).site["blog"].timezone


def test_a_missing_key_is_named() -> None:
    assert complaint('[installation]\nid = "x"').where.endswith("gateway")


def test_a_value_of_another_type_is_refused_without_showing_it() -> None:
    error = complaint(SITE.replace('"remit"', "12345678"))
    assert error.where.endswith("site.blog.user")
    assert "12345678" not in f"{error}{error.fix}"


def test_a_limit_needs_somebody_who_enforces_it() -> None:
    assert "max_run_source" in complaint(SITE + "max_run_s = 30").fix


CLOUDFLARE = SITE + f'[site.blog.cloudflare]\nzone = "{"0" * 32}"\ntoken_file = "token"\n'


@pytest.mark.parametrize(
    ("lines", "where", "problem"),
    [
        ('purge = ["/feed/"]', "purge", "not an address"),
        ("purge = []", "purge", "at least 1 item"),
        ("batch = 101", "batch", "the plan allows 100"),
        ("plan_limit = 501", "plan_limit", "less than or equal to 500"),
        (f"purge = {[f'https://b.example/{n}/' for n in range(121)]}", "purge", "5 requests"),
        ('batch = 1\npurge = ["{url}", "{url}amp/", "https://b.example/"]', "purge", "5 requests"),
    ],
)
def test_a_purge_that_could_not_be_made_is_refused_before_anything_is_published(
    lines: str, where: str, problem: str
) -> None:
    error = complaint(CLOUDFLARE + lines)
    assert error.where.endswith(f"site.blog.cloudflare.{where}")
    assert problem in error.problem


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        (MINIMAL + "[engine]\nlease_s = 1\nrenew_s = 100", "engine.renew_s", "must outlast its renewal"),
        (MINIMAL + "[engine]\nlease_s = 10", "engine.renew_s", "must outlast its renewal"),
        (SITE + 'public_url = "https://blog.example/"', "site.blog.public_url", "the same address"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(text: str, where: str, problem: str) -> None:
    error = complaint(text)
    assert error.where == f"remit.toml, {where}"
    assert problem in error.problem
    assert error.fix


@pytest.mark.parametrize(
    "url",
    ["nonsense", "postgres://u@h/d", "mysql+pymysql://u@h/d", "postgresql+psycopg://u@h:port/d", "app:PW", "", "://"],
)
@pytest.mark.parametrize("section", ["publications", "monitoring"])
def test_what_is_no_database_is_refused_and_not_repeated(tmp_path: Path, section: str, url: str) -> None:
    secret = tmp_path / "url"
    secret.write_text(f"{url}\n")
    secret.chmod(0o600)
    config = load_config(home_with(tmp_path, MINIMAL + f'[{section}]\nurl_file = "url"'))
    with pytest.raises(ConfigError) as caught:
        make_tables(config)
    assert caught.value.fix
    assert not url or url not in f"{caught.value.problem} {caught.value.where}"


def test_a_home_whose_path_an_address_would_cut_is_refused(tmp_path: Path) -> None:
    odd = tmp_path / "a?b"
    odd.mkdir()
    config = load_config(home_with(odd, MINIMAL + '[publications]\nurl = "sqlite:///{home}/x.db"'))
    with pytest.raises(ConfigError, match="another file"):
        config.publications_url()


@pytest.mark.parametrize("tag", ["two words", "", "x" * 51])
def test_a_tag_is_one_short_word(tag: str) -> None:
    assert complaint(MINIMAL + f'[monitoring]\nurl = "sqlite://"\ntags = ["{tag}"]').where.endswith("monitoring.tags.0")


def test_the_key_of_a_monitoring_service_comes_from_a_private_file(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    text = MINIMAL + '[monitoring]\nkind = "healthchecks"\nurl = "https://checks.example"\napi_key_file = "key"'
    config = load_config(home_with(tmp_path, text))
    key = config.monitoring_key()
    assert key is not None
    assert (key.value, config.monitoring_url().value) == ("s3cret", "https://checks.example")
    assert secret in config.credential_files()


@pytest.mark.parametrize(
    "lines", ["", 'recipients = ["a@b.example"]\nurl = "https://hook.example/"', "recipients = []", "private = true"]
)
def test_a_list_is_of_people_or_a_receiver(lines: str) -> None:
    assert complaint(MINIMAL + f"[notify.team]\n{lines}").problem == "not one kind of list"


def test_the_secret_of_a_receiver_comes_from_a_private_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("whsec_x\n")
    secret.chmod(0o600)
    lists = '[notify.hook]\nurl = "https://hook.example/"\nsecret_file = "secret"'
    config = load_config(home_with(tmp_path, MINIMAL + lists))
    assert config.webhook_secret("hook").value == "whsec_x"
    assert secret in config.credential_files()
    without = load_config(home_with(tmp_path, MINIMAL + lists.replace('secret_file = "secret"', "")))
    with pytest.raises(ConfigError, match="secret"):
        without.webhook_secret("hook")


def test_the_configuration_that_the_readme_shows_is_accepted() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    shown = re.findall(r"^```toml\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert shown
    named = re.search(r'`(issuer = "[^"]+")`, `(audience =\s"[^"]+")`', readme)
    assert named is not None
    own = re.sub(r'issuer = "[^"]+"\naudience = "[^"]+"', "\n".join(named.groups()).replace("=\n", "= "), SITE, count=1)
    assert parse_settings(own + "".join(shown), Path("remit.toml")).site["blog"].cloudflare is not None


def test_a_zone_is_named_by_its_id() -> None:
    assert complaint(CLOUDFLARE.replace("0" * 32, "blog.example")).where.endswith("site.blog.cloudflare.zone")


def test_the_most_that_can_be_purged_is_accepted() -> None:
    most = [f"https://b.example/{n}/" for n in range(120)]
    assert parse_settings(CLOUDFLARE + f"purge = {most}", Path("remit.toml")).site["blog"].cloudflare is not None


def test_names_that_could_not_stand_in_a_business_key_are_refused() -> None:
    assert complaint(MINIMAL + '[site."My Blog"]\nurl = "https://b.example"\nuser = "u"').problem == "not a usable name"


def test_text_that_is_no_toml_is_refused() -> None:
    assert "not valid TOML" in complaint("[gateway").problem


def test_a_home_that_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "nothing")
    assert "remit init" in caught.value.fix


def test_the_home_is_found_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_HOME", str(home_with(tmp_path, MINIMAL)))
    assert load_config().home == tmp_path


def test_an_unknown_log_level_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError) as caught:
        load_config(home_with(tmp_path, MINIMAL))
    assert "REMIT_LOG_LEVEL" in caught.value.where


def test_a_password_in_the_file_itself_is_an_unknown_key() -> None:
    assert "`password_" in complaint(SITE + 'password = "hunter2"').fix


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(mode)
    config = load_config(home_with(tmp_path, SITE + 'password_file = "password"'))
    with pytest.raises(ConfigError) as caught:
        config.site_password("blog")
    assert "chmod 600" in caught.value.fix
    assert "hunter2" not in str(caught.value)


def test_a_password_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("hunter2")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "password").symlink_to(tmp_path / "real")
    config = load_config(home_with(tmp_path, SITE + 'password_file = "password"'))
    with pytest.raises(ConfigError):
        config.site_password("blog")


def test_a_private_password_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("abcd efgh\n")
    secret.chmod(0o600)
    config = load_config(home_with(tmp_path, SITE + 'password_file = "password"'))
    assert config.site_password("blog").value == "abcd efgh"


def test_a_password_can_come_from_a_named_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(home_with(tmp_path, SITE + 'password_env = "BLOG_PASSWORD"'))
    with pytest.raises(ConfigError) as caught:
        config.site_password("blog")
    assert "BLOG_PASSWORD" in caught.value.fix
    monkeypatch.setenv("BLOG_PASSWORD", "s3cret")
    assert config.site_password("blog").value == "s3cret"


def test_a_secret_does_not_show_itself(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    found = load_config(home_with(tmp_path, SITE + 'password_file = "password"')).site_password("blog")
    assert "hunter2" not in f"{found} {found!r}"


def test_a_process_of_ours_inherits_no_token_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    from server.config import child_environment

    monkeypatch.setenv("REMIT_TOKEN_FILE", "/tmp/token")
    monkeypatch.setenv("BLOG_PASSWORD", "s3cret")
    assert not {"REMIT_TOKEN_FILE", "BLOG_PASSWORD"} & child_environment().keys()
    assert child_environment()["PATH"] == os.environ["PATH"]


GITHUB = MINIMAL + '[github]\nowner = "o"\nrepo = "r"\n'


def test_the_repository_of_the_first_page_is_a_usable_one() -> None:
    shown = re.search(r"```toml\n(\[github\].*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    section = parse_settings(MINIMAL + shown[1], Path("remit.toml")).github
    assert section is not None
    assert (section.url, section.pull_request, section.max_run_s) == ("https://api.github.com", False, 10)
    assert bounds_of(section).quiescent_after_s() is not None


def test_a_repository_whose_limits_nobody_names_is_never_quiet_by_itself() -> None:
    section = parse_settings(GITHUB, Path("remit.toml")).github
    assert section is not None
    assert bounds_of(section).quiescent_after_s() is None


def test_the_token_comes_from_a_private_file_and_is_among_the_secrets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(home_with(tmp_path, GITHUB)).github_token()
    assert "token_file" in caught.value.fix
    (tmp_path / "token").write_text("github_pat_canary\n")
    (tmp_path / "token").chmod(0o600)
    config = load_config(home_with(tmp_path, GITHUB + 'token_file = "token"'))
    assert [secret.value for secret in secrets_of(config)] == ["github_pat_canary"]
    assert tmp_path / "token" in config.credential_files()
    assert "canary" not in repr(secrets_of(config))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner", "o/p"),
        ("repo", "r?x=1"),
        ("folder", "../secrets"),
        ("folder", ".git"),
        ("base_branch", "a..b"),
        ("author_name", "A <b>"),
        ("author_name", "Remit."),
        ("author_name", " Remit"),
        ("author_email", ""),
        ("url", "http://github.example"),
    ],
)
def test_a_value_that_no_repository_can_have_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    monkeypatch.setenv("ANY_TOKEN", "x")
    text = GITHUB.replace(f'{key} = "{key[0]}"\n', "") + f'{key} = "{value}"\ntoken_env = "ANY_TOKEN"\n'
    with pytest.raises(ConfigError) as caught:
        repository_of(load_config(home_with(tmp_path, text)))
    assert "[github]" in caught.value.where


def test_archiving_is_planned_where_a_repository_is_configured_without_its_token(tmp_path: Path) -> None:
    def planned(text: str) -> tuple[bool, bool]:
        settings = publish_settings(load_config(home_with(tmp_path, text)))
        return settings.archive, settings.pull_request

    assert planned(MINIMAL) == (False, False)
    assert planned(GITHUB) == (True, False)
    assert planned(GITHUB + "pull_request = true") == (True, True)

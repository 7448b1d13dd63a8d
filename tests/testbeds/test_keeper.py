"""However a test run ends, the services that it started end too."""

import contextlib
import subprocess
import sys
import uuid
from pathlib import Path

from tests.services import WordPress, wait_until, wordpress_for_run

USE = """
import sys
from tests.services import wordpress_for_run
with wordpress_for_run(sys.argv[1]) as site:
    print(site.directory, flush=True)
    sys.stdin.read()
"""
STOP_MAX_S = 20.0


def user_of(run_id: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USE, run_id],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


def pids_of(directory: Path) -> list[int]:
    return [int(line.split()[1]) for line in (directory / "pids").read_text().splitlines()]


def test_two_users_of_a_run_share_one_site_and_it_ends_with_the_last_even_if_killed(wordpress: WordPress) -> None:
    run_id = uuid.uuid4().hex
    with user_of(run_id) as first, user_of(run_id) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        directory = Path(first.stdout.readline().strip())
        assert Path(second.stdout.readline().strip()) == directory != wordpress.directory
        pids = pids_of(directory)
        first.kill()
        first.wait()
        with wordpress_for_run(run_id) as site:
            assert site.directory == directory
            assert site.rest("GET", "/wp/v2/users/me").status == 200
        second.kill()
    wait_until(lambda: not directory.exists(), timeout_s=STOP_MAX_S)
    assert [pid for pid in pids if not ended(pid)] == []

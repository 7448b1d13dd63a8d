"""`python -m server.demo.naive PORT_FILE < article.json`: the tool that an agent has when it has no Remit.

It posts the article and tells the team. It is not badly written, it only keeps nothing: a time-out counts as a failure,
nobody can say whether the post is there, and the next call starts again.
"""

from __future__ import annotations

import base64
import json
import sys
from email.message import EmailMessage
from http.client import HTTPConnection
from pathlib import Path
from smtplib import SMTP
from typing import Any, Final

LOGIN: Final = "editor1"
ANSWER_MAX_S: Final = 2.0


def publish(ports: Any, title: str, content: str) -> str:
    """Publish a post; its address. Raises OSError, also for a time-out."""
    password = ports["accounts"][LOGIN]
    headers = {"Authorization": "Basic " + base64.b64encode(f"{LOGIN}:{password}".encode()).decode()}
    post = {"status": "publish", "title": title, "content": content}
    connection = HTTPConnection("127.0.0.1", ports["http_port"], timeout=ANSWER_MAX_S)
    connection.request("POST", "/wp-json/wp/v2/posts", json.dumps(post), headers)
    answer = connection.getresponse()
    if answer.status != 201:
        raise ConnectionError(f"WordPress answered {answer.status}")
    return str(json.loads(answer.read())["link"])


def notify(ports: Any, title: str, link: str) -> None:
    """Tell the team."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "tool@remit.invalid", "team@remit.invalid", title
    message.set_content(f"Published: {link}")
    with SMTP("127.0.0.1", ports["smtp_port"], timeout=ANSWER_MAX_S) as relay:
        relay.send_message(message)


def main(port_file: Path) -> None:
    """One call of the tool."""
    ports, article = json.loads(port_file.read_bytes()), json.load(sys.stdin)
    try:
        link = publish(ports, article["title"], article["content"])
        notify(ports, article["title"], link)
    except OSError as error:
        sys.exit(f"failed: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

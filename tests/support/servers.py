"""Real processes of `boxscore serve`; whatever happens, they end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.support.documents import ROOT

MAIN = """
import signal, sys
{setup}
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may have it ignored
from boxscore.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Answer(NamedTuple):
    """What a server answers."""

    status: int
    headers: dict[str, str]
    """By name, in lower case."""
    body: bytes


class Server(NamedTuple):
    """A running server."""

    process: subprocess.Popen[str]
    address: str
    """As it was printed."""

    def ask(self, path: str, **headers: str) -> Answer:
        """The answer to a path that is sent as it is."""
        parts = urlsplit(self.address)
        with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=60)) as connection:
            connection.putrequest("GET", path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            with connection.getresponse() as answer:
                names = {name.lower(): value for name, value in answer.getheaders()}
                return Answer(answer.status, names, answer.read())

    def stop(self) -> tuple[int, str, str]:
        """Ctrl-C; the exit code, the rest of stdout, and stderr."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@contextmanager
def serving(folder: Path, *options: str, setup: str = "") -> Iterator[Server]:
    """A server of a folder on a free port. `setup`: code that its process runs first."""
    command = [
        sys.executable,
        "-c",
        MAIN.format(setup=setup),
        "serve",
        str(folder),
        "--port",
        "0",
        "--bootstrap",
        "20",
        *options,
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert " at http://" in first, first + process.communicate()[1]
            yield Server(process, first.split(" at ")[1].split()[0])
        finally:
            process.kill()

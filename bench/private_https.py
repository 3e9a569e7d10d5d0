"""Whether questions to https serves hold up the front door: `python -m bench.private_https [--seconds N]`.

`/healthz` is asked every 5 ms, first with no https serve configured, then with one, then with five that Stoker looks
for every 5 s and that are not to be trusted (their certificate is unknown), so that it never stops looking. Each
question needs a TLS context with this machine's certificates; how late `/healthz` answers is what everybody else waits.
"""

from __future__ import annotations

import argparse
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench import machine
from bench.figures import table
from bench.flood import probe, row
from bench.processes import free_port
from bench.up import Up

CONFIG = """\
[front_door]
port = {port}
[paths]
state = "state"
logs = "logs"
"""
SERVE = """
[[serve]]
name = "s{at}"
base_url = "https://127.0.0.1:{engine}/v1"
"""


class Silent(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class Engine(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Its certificate was refused."""


def engine(folder: Path) -> Engine:
    """A server with a certificate of its own. Raises CalledProcessError."""
    made = folder / "own.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", made, "-out", f"{made}.crt"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{made}.crt", made)
    server = Engine(("127.0.0.1", 0), Silent)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def measured(folder: Path, serves: int, address: int, seconds: float) -> list[str]:
    port = free_port()
    text = CONFIG.format(port=port) + "".join(SERVE.format(at=at, engine=address) for at in range(serves))
    with Up(folder, text, port, {}):
        ends = time.perf_counter() + seconds
        return row(f"{serves} https serves", probe(port, lambda: time.perf_counter() > ends), f"{seconds:g}", "")[:5]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.private_https", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=20.0, metavar="N", help="of each measurement (default 20)")
    seconds = parser.parse_args(argv).seconds
    if shutil.which("openssl") is None:
        print("openssl, which makes the certificate, is missing", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        folder = Path(name)
        server = engine(folder)
        rows = [measured(folder / str(count), count, server.server_port, seconds) for count in (0, 1, 5)]
        server.shutdown()
        server.server_close()
    print(machine.headline(machine.facts()))
    print(table(["/healthz, ms, beside", "p50", "p99", "most", "took, s"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

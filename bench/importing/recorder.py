"""A stand-in for every engine: writes its arguments, environment and directory to $LLAMA_RECORD_FILE, then serves.

Run as `llama-server`, `vllm`, `docker` and so on by both programs, it lists the models that it was started for and
$LLAMA_RECORD_MODELS, and writes down the body of each POST; of a form, that it came.
"""

import json
import os
import re
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RECORD = os.environ["LLAMA_RECORD_FILE"]
PORT_OPTIONS = ("--port", "-p", "--publish", "--http-port", "-l")
NAMES = ("--alias", "-a", "--served-model-name", "-m", "--model")


def note(kind: str, **facts: object) -> None:
    line = json.dumps({"kind": kind, "pid": os.getpid(), **facts}) + "\n"
    handle = os.open(RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode())  # one write: lines of several processes do not mix
    os.close(handle)


def port_of(argv: list[str]) -> int:
    """The port to listen on; of `-p HOST:CONTAINER` the host's. 0: none is given, so the command only runs and ends."""
    for place, word in enumerate(argv):
        option, _, value = word.partition("=")
        if option in PORT_OPTIONS:
            found = re.search(r"(\d+)(:\d+)?$", value or (argv[place + 1] if place + 1 < len(argv) else ""))
            if found:
                return int(found[1])
    return int(os.environ.get("LLAMA_RECORD_PORT", 0))


ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5], "b64_json": "AA=="}],
    "results": [{"index": 0, "relevance_score": 0.5}],
    "text": "ok",
}
"""To any question."""


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        names = [sys.argv[at + 1] for at, word in enumerate(sys.argv[:-1]) if word in NAMES]
        names += json.loads(os.environ.get("LLAMA_RECORD_MODELS", "[]"))
        rows = [{"id": name, "object": "model"} for name in dict.fromkeys(names)]
        self._reply({"object": "list", "data": rows, "status": "ok"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(data) if self.headers.get("content-type", "").startswith("application/json") else {}
        note("request", path=self.path, body=body)
        self._reply({**ANSWER, "model": body.get("model", "")})

    def _reply(self, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def stop(name: str) -> None:
    """As `docker stop NAME` or `docker rm -f NAME`: ends the last process started with `--name NAME`, if any."""
    with open(RECORD) as file:
        rows = [json.loads(line) for line in file]
    started = [row for row in rows if row["kind"] == "start" and f" --name {name} " in f" {' '.join(row['argv'])} "]
    for row in started[-1:]:
        os.kill(row["pid"], signal.SIGTERM)


def main() -> None:
    program, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
    if argv in (["--version"], ["--help"]):
        print(f"{program} (a recorder)")
        return
    if argv[:1] in (["stop"], ["kill"], ["rm"]):
        stop(argv[-1])
        return
    port = port_of(argv)
    note("start", program=program, argv=argv, cwd=os.getcwd(), env=dict(os.environ), port=port)
    if port:
        ThreadingHTTPServer(("127.0.0.1", port), Engine).serve_forever()


if __name__ == "__main__":
    main()

"""A model server that does as its options say; run as a program, with nothing but sockets so that it is up at once."""

import argparse
import json
import os
import signal
import socket
import sys
import time


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--id", default="a")
    parser.add_argument("--key", default="")
    parser.add_argument("--health", type=int, default=200)
    parser.add_argument("--no-models", action="store_true", help="no list of models, as whisper-server")
    parser.add_argument("--prefix", default="", help="before every path")
    parser.add_argument("--probe", default="", help="a path that answers 200")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before it listens")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--wrap", action="store_true", help="serve in a child, and wait for it")
    parser.add_argument("--exit", type=int, default=None, help="say something and exit with this code")
    parser.add_argument("--say", default="")
    parser.add_argument("--flood", type=int, default=0, help="bytes to write to stdout")
    parser.add_argument("--environment", default="", help="a file to write the environment to")
    parser.add_argument("--canary", default="", help="a JSON answer to POSTs; empty: 500")
    parser.add_argument("--rank", type=int, default=0, help="any but 0 serves nothing: it stays until it is ended")
    parser.add_argument("--rendezvous", default="", help="HOST:PORT where rank 0 waits until another rank connects")
    parser.add_argument("--fail-rank", type=int, default=None, help="this rank exits with code 3 once all have met")
    return parser.parse_args()


def answer(o: argparse.Namespace, head: str) -> tuple[int, object]:
    verb, path, _ = head.split(" ", 2)
    if not path.startswith(o.prefix):
        return 404, {}
    path = path.removeprefix(o.prefix)
    if path == o.probe:
        return 200, {}
    if o.no_models and path == "/v1/models":
        return 404, {}
    if path == "/health":
        return o.health, {"status": "ok" if o.health == 200 else "loading"}
    if o.key and f"Authorization: Bearer {o.key}" not in head:
        return 401, {"error": "key"}
    if path == "/v1/models":
        return 200, {"object": "list", "data": [{"id": o.id, "meta": {"n_ctx": 128}}]}
    if verb == "POST":
        return (200, json.loads(o.canary)) if o.canary else (500, {"error": "cannot decode"})
    return 404, {}


def serve(o: argparse.Namespace) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((o.host, o.port))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                head = connection.recv(65536).decode("latin-1")
                if not head:
                    continue
                status, value = answer(o, head)
                body = json.dumps(value).encode()
                connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))


def meet(o: argparse.Namespace) -> None:
    """As the two ranks of an engine: rank 0 is up only when rank 1 has found it."""
    host, _, port = o.rendezvous.rpartition(":")
    if not o.rank:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, int(port)))
            listener.listen()
            listener.accept()[0].close()
        return
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def main() -> None:
    o = options()
    if o.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if o.environment:
        with open(o.environment, "w") as file:
            json.dump(dict(os.environ), file)
    if o.say:
        print(o.say.replace("\\n", "\n"), flush=True)
    left = o.flood
    while left > 0:
        print("x" * 99, flush=True)
        left -= 100
    if o.exit is not None:
        sys.exit(o.exit)
    if o.wrap:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
    if o.rendezvous:
        meet(o)
    if o.fail_rank == o.rank:
        print("NCCL error: the other side is gone", flush=True)
        sys.exit(3)
    time.sleep(o.delay)
    if o.rank:
        time.sleep(600)
    serve(o)


main()

"""What a start is known by: the engine's key, its address, and digests that reveal nothing."""

from __future__ import annotations

from stoker.domain.host_port import reachable
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.process import identity
from stoker.fleet.process.launch_fingerprint import fingerprint
from stoker.fleet.process.signing import KeySigner
from stoker.fleet.process.start_records import StartRecord


class Keys:
    """Derives; remembers nothing."""

    def __init__(self, signer: KeySigner) -> None:
        self._signer = signer

    def key(self, serve: Serve, nonce: str) -> str:
        """The key that the engine asks for: the configured one, or one of its own for each start."""
        return serve.key.reveal() if serve.key is not None else self._signer.engine_key(serve.name, nonce)

    def address(self, serve: Serve, record: StartRecord) -> Target:
        """Where the start of `record` answers, and with which key."""
        key = self.key(serve, record.nonce) if record.takes_key or serve.key is not None else None
        host = reachable(serve.host) if record.job is None else record.job.host
        return Target(host, record.port, serve.base_path, serve.served_name or serve.name, key)

    def command(self, pid: int) -> str:
        """A keyed digest of a process's command line, which may hold a key; empty if the process is gone."""
        line = identity.command_line(pid)
        return self._signer.digest("command", line) if line else ""

    def fingerprint(self, serve: Serve) -> str:
        """The same for two serves exactly when one `launches_like` the other."""
        return fingerprint(serve, self._signer)

"""What holds for every test."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background by a shell without job control: programs that the tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

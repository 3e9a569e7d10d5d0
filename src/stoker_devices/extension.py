"""What this package adds to Stoker."""

from __future__ import annotations

from stoker.extensions import Extension

EXTENSION = Extension("Watches accelerators: use, temperature, power, energy.", server="stoker_devices.server:build")

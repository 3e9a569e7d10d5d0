"""The three pictures of the image check, drawn here and written as PNG. Pure."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

Pixel = tuple[int, int, int]
WHITE, BLACK, RED, BLUE, GREEN, YELLOW = (255, 255, 255), (0, 0, 0), (220, 30, 30), (30, 60, 220), (30, 160, 60), (
    240, 220, 40,
)  # fmt: skip
_DIGITS = {
    "4": "#...##...##...######....#....#....#",
    "7": "#####....#...#...#...#....#....#...",
    "2": ".###.#...#....#..##.##...#....#####",
}  # fmt: skip


def number(digits: str = "427", scale: int = 12) -> bytes:
    """Black on white, 5 by 7 dots each. Only 2, 4 and 7 are drawn."""
    grid: list[list[Pixel]] = [[WHITE] * (7 * len(digits) + 1) for _ in range(9)]
    for place, digit in enumerate(digits):
        for at, dot in enumerate(_DIGITS[digit]):
            if dot == "#":
                grid[1 + at // 5][2 + 7 * place + at % 5] = BLACK
    return png(grid, scale)


def colours() -> bytes:
    """Top: red, blue; bottom: green, yellow."""
    return png([[RED, BLUE], [GREEN, YELLOW]], 64)


def sides() -> bytes:
    """A red disc on the left, a blue square on the right."""
    grid: list[list[Pixel]] = [[WHITE] * 32 for _ in range(16)]
    for y in range(16):
        for x in range(16):
            if (x - 7.5) ** 2 + (y - 7.5) ** 2 < 30:
                grid[y][x] = RED
            if 3 <= x < 13 and 3 <= y < 13:
                grid[y][16 + x] = BLUE
    return png(grid, 12)


def png(grid: Sequence[Sequence[Pixel]], scale: int) -> bytes:
    """Each pixel as a square of `scale`."""
    rows = []
    for row in grid:
        line = b"\0" + b"".join(bytes(pixel) * scale for pixel in row)
        rows += [line] * scale
    size = struct.pack(">IIBBBBB", len(grid[0]) * scale, len(grid) * scale, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def url(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()

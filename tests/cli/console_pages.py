"""What a page shows of a console: commands after `$`, and under each the lines that it prints.

Such a line is found in what the command prints, in the page's order, from its beginning; `...`
stands for anything. Shares in percent may differ by a few points from one processor to another.
"""

from __future__ import annotations

import re

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHARE = re.compile(r"(\d+\.\d) %")
#: How far a share may lie from the one on the page, in points.
POINTS = 6.0


def steps(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines shown under it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def plain(line: str) -> str:
    """Return a line with single blanks, the two kinds of upright lines of a table as one."""
    return " ".join(line.replace("┃", "│").split())


def shows(printed: str, wanted: str) -> bool:
    """Return whether a printed line begins as a line on the page does."""
    here, there = plain(printed), plain(wanted)
    head = SHARE.split(there)
    # Odd pieces are shares; what stands between them must be the same.
    pattern = "".join(
        r"(\d+\.\d) %" if index % 2 else ".*".join(map(re.escape, piece.split("...")))
        for index, piece in enumerate(head)
    )
    match = re.match(pattern, here)
    return match is not None and all(
        abs(float(share) - float(shown)) <= POINTS
        for share, shown in zip(match.groups(), head[1::2], strict=True)
    )


def missing(printed: str, shown: list[str]) -> list[str]:
    """Return the lines of the page that a command did not print in their order."""
    lines, absent = printed.splitlines(), []
    for wanted in shown:
        found = next((n for n, line in enumerate(lines) if shows(line, wanted)), None)
        if found is None:
            absent.append(wanted)
        else:
            del lines[: found + 1]
    return absent

"""The figures of a bench as lines of a JSONL file, keyed by what they are figures of.

A bench that starts again on the same file repeats nothing that is there, however it ended.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unlabel.errors import SettingsError
from unlabel.files import writing


class Records:
    """The figures so far."""

    def __init__(self, path: str, recipe: str) -> None:
        self._path = Path(path) if path else None
        self._recipe = recipe
        self.lines: list[dict[str, Any]] = []
        if self._path is not None and self._path.exists():
            self.lines, torn = read_lines(self._path)
            if torn:
                with writing(self._path), self._path.open("ab") as file:
                    file.truncate(file.seek(0, 2) - torn)

    def find(self, **key: Any) -> dict[str, Any] | None:
        """Return the last line of a key: where work was done again, the new figures count."""
        facts = {"recipe": self._recipe, **key}
        for line in self.lines[::-1]:
            if all(line.get(name) == value for name, value in facts.items()):
                return line
        return None

    def of_recipe(self) -> list[dict[str, Any]]:
        """Return the lines of this recipe; a file may hold those of others."""
        return [line for line in self.lines if line["recipe"] == self._recipe]

    def add(self, **line: Any) -> dict[str, Any]:
        """Keep a line at once, so that an interruption loses nothing; return it."""
        line = {"recipe": self._recipe, **line}
        self.lines.append(line)
        if self._path is not None:
            with writing(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("ab") as file:
                    file.write(json.dumps(line).encode() + b"\n")
        return line


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the whole lines of a file, and how many bytes of a torn one follow them.

    A line counts once its end is written, so what stands after the last end is of a bench that
    was killed while it wrote.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"Records '{path}' cannot be read ({error.strerror}).") from error
    whole, _, torn = data.rpartition(b"\n")
    lines = []
    for number, text in enumerate(whole.splitlines(), 1):
        try:
            line = json.loads(text) if text.strip() else None
        except ValueError as error:
            raise SettingsError(
                f"Line {number} of the records '{path}' is not JSON; name another file."
            ) from error
        if line is not None:
            if not isinstance(line, dict) or "recipe" not in line:
                raise SettingsError(
                    f"Line {number} of '{path}' is no record of a bench; name another file."
                )
            lines.append(line)
    return lines, len(torn)

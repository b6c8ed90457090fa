"""Where the artefacts of 0.6 lie, and how they come to a place where they may be changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

MADE = Path(__file__).parent / "v0_6"
#: What 0.6.0 printed about each of them.
PRINTED: dict[str, Any] = json.loads((MADE / "printed.json").read_text())
#: Stands in them for the folder in which they lie.
PLACE = b"@FOLDER@"


def put(name: str, folder: Path) -> Path:
    """Copy an artefact into a folder, with the tables and keys that go with it; return where."""
    for part in (name, "tables", "auditor"):
        if not (folder / part).exists():
            shutil.copytree(MADE / part, folder / part)
            for path in (folder / part).rglob("*"):
                path.chmod(0o700 if path.is_dir() else 0o600)  # git does not keep modes
                if path.is_file() and PLACE in (data := path.read_bytes()):
                    path.write_bytes(data.replace(PLACE, str(folder).encode()))
    return folder / name

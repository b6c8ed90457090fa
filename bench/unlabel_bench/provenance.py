"""Where a figure comes from: machine, versions, commit, command and settings."""

from __future__ import annotations

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from unlabel._version import __version__

#: Settings that say where somebody's data lie.
PLACES = ("folder", "given")
PACKAGES = ("torch", "numpy", "safetensors", "scikit-learn")


def provenance(settings: Any) -> dict[str, Any]:
    """Return what somebody needs to repeat a measurement."""
    return {
        "settings": {k: v for k, v in asdict(settings).items() if k not in PLACES},
        "command": f"{_program(sys.argv[0])} {shlex.join(_without_places(sys.argv[1:]))}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": _machine(),
        "versions": {
            "unlabel": __version__,
            "python": platform.python_version(),
            **{name: number for name in PACKAGES if (number := _version(name))},
        },
    }


def place_of(settings: Any, device: str) -> dict[str, Any]:
    """Return device, version of torch and commit, as a line of records holds them."""
    facts = provenance(settings)
    machine = facts["machine"]
    cpu = f"cpu ({machine['system']}, {machine['threads']} of {machine['cores']} cores)"
    return {
        "device": machine.get("gpu", cpu) if device == "cuda" else cpu,
        "torch": facts["versions"]["torch"],
        "commit": facts["commit"],
    }


def _without_places(words: Sequence[str]) -> list[str]:
    """Return a command without where somebody's data lie.

    >>> _without_places(["people", "--folder", "/home/me/data", "--set", "folder=data"])
    ['people', '--folder', 'FOLDER', '--set', 'folder=FOLDER']
    """
    shown = [re.sub(r"^(--)?folder=.*", r"\1folder=FOLDER", word) for word in words]
    shown = [re.sub(r"^given=.*", "given=FILES", word) for word in shown]
    for number, word in enumerate(words[:-1]):
        if word == "--folder":
            shown[number + 1] = "FOLDER"
        elif word == "--data":  # PART=FILE of the bench `paper`, else the name of a dataset
            shown[number + 1] = re.sub(r"=.*", "=FILE", words[number + 1])
    return shown


def _program(path: str) -> str:
    """Return how a program is called; a module goes by its name.

    >>> _program("/venv/bin/unlabel"), _program("src/unlabel/bench.py")
    ('unlabel', 'python -m unlabel.bench')
    >>> _program("bench/unlabel_bench/__main__.py"), _program("src/unlabel/__main__.py")
    ('python -m unlabel_bench', 'python -m unlabel')
    """
    file = Path(path)
    if file.name == "__main__.py":
        return f"python -m {file.parent.name}"
    return f"python -m unlabel.{file.stem}" if file.suffix == ".py" else file.name


def _machine() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    """Return the commit of the source, from the environment where there is no git."""
    named = os.environ.get("UNLABEL_COMMIT")
    if named:
        return named
    try:
        here = Path(__file__).parent
        options = {"cwd": here, "capture_output": True, "text": True, "check": True, "timeout": 10}
        commit = subprocess.run(["git", "rev-parse", "HEAD"], **options).stdout.strip()  # type: ignore[call-overload]
        changed = subprocess.run(["git", "status", "--porcelain"], **options).stdout  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}{' with changes' if changed.strip() else ''}"

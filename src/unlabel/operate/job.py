"""The one job there is: the same files for every command, and no code among them.

Out of the box a job carries the submitter's own Python to every site, which would let the active
party walk around a partner's policy. Ours names two classes of the installed package and nothing
else; kits refuse any job that brings code.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from unlabel.files import writing

JOB = "unlabel"
#: Seconds for which the parties may take to join.
JOIN = 60


def recipe(parties: int, server: object = None, client: object = None) -> Any:
    """Return the job for so many passive parties, as the engine's own object.

    server, client  what runs at its two ends; the bridges if None
    """
    from nvflare.collab import CollabRecipe

    from unlabel.operate.bridge import ActiveBridge, PassiveBridge

    return CollabRecipe(
        JOB,
        server=server or ActiveBridge(),
        client=client or PassiveBridge(),
        min_clients=parties,
        sync_task_timeout=JOIN,
        max_call_threads_for_server=parties + 4,
        max_call_threads_for_client=4,
    )


def write_job(folder: Path, parties: int) -> Path:
    """Write the job for so many passive parties into a folder; return where it stands."""
    return write_recipe(folder, recipe(parties))


def write_recipe(folder: Path, made: Any) -> Path:
    """Write a job into a folder, without code; return where it stands."""
    with writing(folder):
        path = folder / JOB
        if path.exists():
            shutil.rmtree(path)
        made.export(str(folder))
        for custom in list(path.rglob("custom")):
            shutil.rmtree(custom)
    return path

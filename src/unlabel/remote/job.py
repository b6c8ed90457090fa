"""The one job there is: the same files for every command, and no code among them.

By default a job carries the submitter's own Python to every site, which would let the active party
evade a partner's policy. This one names two classes of the installed package and nothing else;
kits refuse any job that brings code.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from unlabel.files import writing

JOB = "unlabel"
#: Seconds that the parties may take to join.
JOIN = 60


def recipe(parties: int, server: object = None, client: object = None) -> Any:
    """Return the job for so many passive parties, as the engine's own object.

    server, client  what runs at its two ends; the bridges if None
    """
    from nvflare.collab import CollabRecipe

    from unlabel.remote.bridge import ActiveBridge, PassiveBridge

    return CollabRecipe(
        JOB,
        server=server or ActiveBridge(),
        client=client or PassiveBridge(),
        min_clients=parties,
        sync_task_timeout=JOIN,
        max_call_threads_for_server=parties + 4,
        max_call_threads_for_client=4,
    )


def write_job(folder: Path, parties: int, server: object = None, client: object = None) -> Path:
    """Write a `recipe` into a folder, without code; return where it stands."""
    with writing(folder):
        path = folder / JOB
        if path.exists():
            shutil.rmtree(path)
        recipe(parties, server, client).export(str(folder))
        for custom in list(path.rglob("custom")):
            shutil.rmtree(custom)
    return path

"""What the engine may do at a party: its rules, in the files it reads.

    authorization.json   which right each role of a user has here
    resources.json       which classes a job may name here, and what the engine starts with
    log_config.json      what is logged, and where
    comm_config.json     how the server's own processes speak to each other

A job may name one class of unlabel's and one of the engine's, both installed, and bring no code.
Nobody may run shell commands or read files, no other party can shut a site down, and no log is
sent to anybody.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.remote.certificates import ROLE

AUTHORIZATION, RESOURCES, LOGS = "authorization.json", "resources.json", "log_config.json"
INSIDE = "comm_config.json"
#: The classes that a job may name, at the server and at a client.
ALLOWED: dict[str, tuple[str, ...]] = {
    "server": (
        "unlabel.remote.bridge.ActiveBridge",
        "nvflare.collab.runtime.controller.CollabController",
    ),
    "client": (
        "unlabel.remote.bridge.PassiveBridge",
        "nvflare.collab.runtime.executor.CollabExecutor",
    ),
}
#: Parts of the engine that send logs elsewhere, or take them in.
STREAMERS = ("site_log_streamer", "log_receiver")
LOG_SIZE, LOG_FILES = 10 * 2**20, 5


def permissions(role: str) -> dict[str, Any]:
    """Return who may do what at a site; what is not named is refused."""
    at_home = role == "server"
    return {
        "format_version": "1.0",
        "permissions": {
            ROLE: {
                "submit_job": "any",
                "manage_job": "n:submitter",
                "view": "any",
                "download_job": "n:submitter" if at_home else "none",
                "operate": "o:site" if at_home else "none",
                "clone_job": "none",
                "shell_commands": "none",
                "byoc": "none",
                "server-predeployed-flwr": "none",
            }
        },
    }


def resources(role: str, default: dict[str, Any], jobs: Path | None = None) -> dict[str, Any]:
    """Return what the engine starts with: its own defaults, with these rules in their place.

    jobs  folder for a server's jobs: by default all servers on a machine share one place, and the
          engine wants whole paths
    """
    default = copy.deepcopy(default)
    if jobs is not None:
        manager = next(part for part in default["components"] if part["id"] == "job_manager")
        manager["args"]["uri_root"] = str(jobs / "jobs")
        storage = default["snapshot_persistor"]["args"]["storage"]["args"]
        storage["root_dir"] = str(jobs / "snapshots")
    components = [part for part in default["components"] if part["id"] not in STREAMERS]
    for part in components:
        if part["id"] == "job_scheduler":
            # A job that a dead party left behind counts as running for long; the next must not
            # wait for it.
            part["args"] = {"max_jobs": 50, "min_schedule_interval": 1.0}
    return {
        **default,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(ALLOWED[role]),
        "allow_log_streaming": False,
        "components": components,
    }


def inside() -> dict[str, Any]:
    """Return how the server's own processes speak: under TLS, with the server's certificate.

    By default they use a port that every user of the machine can reach, and send everything over
    it in clear. At the other sites only heartbeats use such a port, and their certificates must not
    be a server's: with one of those a party could pose as the server.
    """
    resources = {"host": "localhost", "connection_security": "mtls"}
    return {"allow_adhoc_conns": False, "internal": {"scheme": "tcp", "resources": resources}}


def log_config() -> dict[str, Any]:
    """Return what is logged: everything in a file that rotates, warnings on the output too."""
    line = "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s"
    formatter = {"()": "nvflare.fuel.utils.log_utils.BaseFormatter", "fmt": line}

    def handler(kind: str, level: str, **more: object) -> dict[str, Any]:
        return {"class": f"logging.{kind}", "level": level, "formatter": "line", **more}

    rotating = "handlers.RotatingFileHandler"
    rotation = {"mode": "a", "maxBytes": LOG_SIZE, "backupCount": LOG_FILES}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {
            "output": handler("StreamHandler", "WARNING", stream="ext://sys.stdout"),
            "file": handler(rotating, "INFO", filename="log.txt", **rotation),
            "errors": handler(rotating, "ERROR", filename="error_log.txt", **rotation),
        },
        # Below INFO the engine would log what it carries.
        "loggers": {
            "root": {"level": "INFO", "handlers": ["output", "file", "errors"]},
            # It has a line for every call, and a training makes thousands.
            "nvflare.collab.runtime.cell_dispatcher": {"level": "WARNING"},
            "nvflare.collab.api.group": {"level": "WARNING"},
        },
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one of the engine's files, for its owner alone."""
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(path, text.encode(), mode=OWNER_ONLY)

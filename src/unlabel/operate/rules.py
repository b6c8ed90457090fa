"""What the engine may do at a party, whoever asks: its rules, in the files it reads.

    authorization.json   which right each role of a user has here
    resources.json       which classes a job may name here, and what the engine starts with
    log_config.json      what is logged, and where
    comm_config.json     how the server's own processes speak to each other

A job may name one class of ours and one of the engine's, both installed, and bring no code. Nobody
may run shell commands or read files here, a partner's site is not shut down from afar, and no log
is sent to anybody.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.operate.certificates import ROLE

AUTHORIZATION, RESOURCES, LOGS = "authorization.json", "resources.json", "log_config.json"
INSIDE = "comm_config.json"
#: The classes that a job may name, at the server and at a client.
ALLOWED = {
    "server": (
        "unlabel.operate.bridge.ActiveBridge",
        "nvflare.collab.runtime.controller.CollabController",
    ),
    "client": (
        "unlabel.operate.bridge.PassiveBridge",
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


def resources(role: str, default: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine starts with: its own defaults, with our rules in place of them."""
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

    Out of the box they use a port of the machine that any of its users can join, and everything
    that is carried passes it in clear. At the other sites little more than signs of life passes
    such a port, and their certificates cannot be a server's: then one could pass for the server.
    """
    resources = {"host": "localhost", "connection_security": "mtls"}
    return {
        "allow_adhoc_conns": False,
        "internal": {"scheme": "tcp", "resources": resources},
    }


def log_config() -> dict[str, Any]:
    """Return what is logged: the engine's course in a file that rotates, warnings on its output."""
    line = "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s"
    formatter = {"()": "nvflare.fuel.utils.log_utils.BaseFormatter", "fmt": line}

    def rotating(file: str, level: str) -> dict[str, Any]:
        return {
            "class": "logging.handlers.RotatingFileHandler",
            "level": level,
            "formatter": "line",
            "filename": file,
            "mode": "a",
            "maxBytes": LOG_SIZE,
            "backupCount": LOG_FILES,
        }

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {
            "output": {
                "class": "logging.StreamHandler",
                "level": "WARNING",
                "formatter": "line",
                "stream": "ext://sys.stdout",
            },
            "file": rotating("log.txt", "INFO"),
            "errors": rotating("error_log.txt", "ERROR"),
        },
        # Below INFO the engine would write down what it carries.
        "loggers": {
            "root": {"level": "INFO", "handlers": ["output", "file", "errors"]},
            # It has a line for every call, and a training makes thousands.
            "nvflare.collab.runtime.cell_dispatcher": {"level": "WARNING"},
            "nvflare.collab.api.group": {"level": "WARNING"},
        },
    }


def place_storage(local: Path, state: Path) -> None:
    """Have a server keep its jobs under `state`: out of the box all on a machine share one place.

    The engine wants whole paths, and a kit is made on one machine and used on another.
    """
    path = local / RESOURCES
    try:
        found = json.loads(path.read_bytes())
        jobs = next(part for part in found["components"] if part["id"] == "job_manager")
        storage = found["snapshot_persistor"]["args"]["storage"]["args"]
        wanted = str(state / "engine" / "jobs"), str(state / "engine" / "snapshots")
        if (jobs["args"]["uri_root"], storage["root_dir"]) == wanted:
            return
        jobs["args"]["uri_root"], storage["root_dir"] = wanted
    except OSError as error:
        raise RunError(f"Cannot read '{path}' ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise RunError(
            f"'{path}' is damaged; take it from the kit as it was handed out."
        ) from error
    write_json(path, found)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one of the engine's files, for its owner alone."""
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(path, text.encode(), mode=OWNER_ONLY)


def describe_rules(local: Path) -> dict[str, str]:
    """Return in words what a kit's own files allow the engine here."""
    try:
        granted = json.loads((local / AUTHORIZATION).read_bytes())["permissions"]
        found = json.loads((local / RESOURCES).read_bytes())
        rights = {
            right: ", ".join(sorted({str(rules[right]) for rules in granted.values()}))
            for right in ("submit_job", "byoc", "shell_commands", "operate")
        }
        classes, mode = found["class_allow_list"], found["class_list_enforcement_mode"]
        streams = bool(found.get("allow_log_streaming", True))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"The engine's rules in '{local}' cannot be read; take them from the kit as it was "
            f"handed out."
        ) from error
    return {
        "who may start jobs": ", ".join(granted),
        "code in jobs": rights["byoc"],
        "shell commands": rights["shell_commands"],
        "control from afar": rights["operate"],
        "classes": f"{', '.join(classes)} ({mode})",
        "logs sent away": "yes" if streams else "no",
    }

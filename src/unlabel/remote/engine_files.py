"""What the engine reads at a party, written anew from the installed package at every start.

    state/engine/startup   where the server is, and links to the party's certificate and key
    state/engine/local     rules
    state/admin            the same of the user who starts jobs; at the active party only

All of it follows from the agreement, the certificates and the engine as it is installed here. So
no file that came with a kit, or that anybody put there since, says what the engine may do.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.remote import rules
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import LEAD, OLD_ROOT, Credential

NO_ENGINE = (
    "This federation's messages are carried by NVIDIA FLARE (`server.carrier: flare`), which is "
    "not installed here; install it with `pip install 'unlabel[federation,flare]'`."
)
#: What stays from one start to the next: logs.
KEPT = ("log.txt*", "error_log.txt*")

log = logging.getLogger("unlabel.engine_files")


def write_engine_files(kit: Kit) -> None:
    """Write all that the engine reads at a party; nothing of what lay there before stays."""
    kit.prepare()
    with writing(kit.state), tempfile.TemporaryDirectory(dir=kit.state) as draft:
        sites = _built(kit, Path(draft))
        for folder in (kit.engine, kit.admin):
            _clear(folder)
        site, *lead = kit.credentials()
        role = "server" if kit.is_active else "client"
        _site(kit.engine, sites[site.owner.name], site, role, kit)
        for each in lead:
            _site(kit.admin, sites[each.owner.name], each, "admin", kit)


def _built(kit: Kit, folder: Path) -> dict[str, Path]:
    """Have the engine write its own files for this party; return where each site's lie."""
    try:
        from nvflare.lighter.constants import CtxKey
        from nvflare.lighter.impl.static_file import StaticFileBuilder
        from nvflare.lighter.impl.workspace import WorkspaceBuilder
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ImportError as error:
        raise RunError(NO_ENGINE) from error
    agreed = kit.agreement
    ports = dict.fromkeys(("fed_learn_port", "admin_port"), kit.port)
    members = [{"name": agreed.server.host, "type": "server", "org": ACTIVE, **ports}]
    if kit.is_active:
        members.append({"name": LEAD, "type": "admin", "org": ACTIVE, "role": "lead"})
    else:
        # An organisation's name has no hyphen in the engine's files; in certificates it may.
        name = kit.name
        members.append({"name": name, "type": "client", "org": name.replace("-", "_")})
    names = [str(member["name"]) for member in members]
    project = {"api_version": 3, "name": agreed.name, "description": "", "participants": members}
    builders = [
        WorkspaceBuilder(template_file=["master_template.yml"]),
        StaticFileBuilder(config_folder="config"),
    ]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        context = Provisioner(str(folder), builders).provision(prepare_project(project), logger=log)
    if context.get(CtxKey.BUILD_ERROR):
        last = output.getvalue().strip().splitlines()[-1:] or ["no reason given"]
        raise RunError(f"The engine could not write its files: {last[0].rstrip('.')}.")
    sites = Path(str(context.get(CtxKey.CURRENT_PROD_DIR)))
    return {name: sites / name for name in names}


def _clear(folder: Path) -> None:
    """Remove all that lies in a folder but logs; a link is removed, never followed."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or not any(path.match(pattern) for pattern in KEPT):
            path.unlink()


def _site(target: Path, source: Path, held: Credential, role: str, kit: Kit) -> None:
    """Write one site's folder: the engine's settings, unlabel's rules, and links to certificates.

    Links, so that a certificate which was renewed is the one that the next process reads.
    """
    startup, local = target / "startup", target / "local"
    for folder in (startup, local):
        folder.mkdir(mode=0o700)
    settings = (source / "startup" / f"fed_{role}.json").read_bytes()
    write_atomically(startup / f"fed_{role}.json", settings, mode=OWNER_ONLY)
    default = json.loads((source / "local" / f"{rules.RESOURCES}.default").read_bytes())
    if role == "admin":
        rules.write_json(local / rules.RESOURCES, default)
    else:
        jobs = kit.engine if kit.is_active else None
        rules.write_json(local / rules.RESOURCES, rules.resources(role, default, jobs))
        rules.write_json(local / rules.AUTHORIZATION, rules.permissions(role))
        rules.write_json(local / rules.LOGS, rules.log_config())
        if role == "server":
            rules.write_json(local / rules.INSIDE, rules.inside())
    base = "server" if role == "server" else "client"
    for name, path in (
        (f"{base}.key", held.key),
        (f"{base}.crt", held.certificate),
        (OLD_ROOT, held.root),
    ):
        (startup / name).symlink_to(os.path.relpath(path, startup.resolve()))

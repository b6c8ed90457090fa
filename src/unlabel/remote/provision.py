"""From federation.yaml to one kit for each party.

    OUT/active/      kit of the active party; the engine's server runs there
    OUT/PARTY/       kit of each passive party
    OUT/authority/   the key that signs certificates, to renew them later: keep it apart

A private key stands in its own kit and nowhere else; the authority keeps none but its own. The
public keys that parties sign with stand in every kit, as part of what all agreed on.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import tempfile
import zipfile
from pathlib import Path

from unlabel.config import Agreement, FederationFile
from unlabel.config.loader import agreement_digest, dump, read_federation
from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.files import OWNER_ONLY, sync_folder, write_atomically, writing
from unlabel.remote import rules
from unlabel.remote.certificates import Authority, Identity, certificate_bytes, key_bytes, make_key
from unlabel.remote.engine import NO_ENGINE
from unlabel.remote.kit import AGREEMENT, LEAD, PARTY, ROOT, check_names, identities
from unlabel.signing import Signer

AUTHORITY = "authority"
AUTHORITY_KEY = "authority.key"

log = logging.getLogger("unlabel.provision")


def provision(file: Path, out: Path, *, zipped: bool = False) -> dict[str, Path]:
    """Make the kits of a federation; return where each lies, and the authority.

    Either all of them are there afterwards, or nothing is.
    """
    settings = read_federation(file)
    _expect_free(out)
    for party in settings.party_files("").values():
        check_names(settings.agreement(), party)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        with writing(out):
            agreement = agreement_with_keys(settings, draft)
            files = settings.party_files(agreement_digest(agreement))
            authority = Authority.make(agreement.name)
            engine = _engine_files(agreement, draft / ".engine")
            for name, party in files.items():
                folder = draft / name
                _write(folder / AGREEMENT, dump(agreement))
                _write(folder / PARTY, dump(party))
                for owner in identities(name, agreement.server.host):
                    site = folder / ("admin" if owner.role is not None else "engine")
                    _site(site, engine[owner.name], authority, owner, settings.days)
            _write(draft / AUTHORITY / AGREEMENT, dump(agreement))
            _write(draft / AUTHORITY / ROOT, certificate_bytes(authority.certificate))
            _write(draft / AUTHORITY / AUTHORITY_KEY, key_bytes(authority.key))
            shutil.rmtree(draft / ".engine")
            kits = {name: out / name for name in (*files, AUTHORITY)}
            if zipped:
                for name in agreement.passive:
                    kits[name] = out / _zip(draft / name).name
            for folder in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
                folder.chmod(0o700)
            draft.rename(out)
            sync_folder(out.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return kits


def agreement_with_keys(settings: FederationFile, out: Path) -> Agreement:
    """Return what all parties agree on, with their public signing keys.

    Each key is made in its own kit under `out`, but for parties that made one themselves.
    """
    trust = {
        name: settings.trust.get(name) or Signer(out / name).public
        for name in settings.agreement().parties
    }
    return settings.agreement(trust)


def _expect_free(out: Path) -> None:
    if out.is_dir():
        if any(out.iterdir()):
            raise RunError(f"Folder '{out}' is not empty; choose another --out.")
    elif out.exists():
        raise RunError(f"'{out}' is a file; choose another --out.")


def _engine_files(agreement: Agreement, folder: Path) -> dict[str, Path]:
    """Have the engine write its own files for every site; return where each site's lie."""
    try:
        from nvflare.lighter.constants import CtxKey
        from nvflare.lighter.impl.static_file import StaticFileBuilder
        from nvflare.lighter.impl.workspace import WorkspaceBuilder
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ImportError as error:
        raise RunError(NO_ENGINE) from error
    ports = dict.fromkeys(("fed_learn_port", "admin_port"), agreement.server.port)
    members = [
        {"name": agreement.server.host, "type": "server", "org": ACTIVE, **ports},
        # An organisation's name has no hyphen in the engine's files; in certificates it may.
        *({"name": n, "type": "client", "org": n.replace("-", "_")} for n in agreement.passive),
        {"name": LEAD, "type": "admin", "org": ACTIVE, "role": "lead"},
    ]
    project = {"api_version": 3, "name": agreement.name, "description": "", "participants": members}
    # Certificates are not left to the engine, which would keep everybody's key in one file.
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
    return {name: sites / name for name in (agreement.server.host, *agreement.passive, LEAD)}


def _site(target: Path, source: Path, authority: Authority, owner: Identity, days: int) -> None:
    """Write one site's folder: the engine's settings, unlabel's rules, and a new certificate."""
    role = "server" if owner.host is not None else "client"
    kind = "admin" if owner.role is not None else role
    startup, local = target / "startup", target / "local"
    _write(startup / f"fed_{kind}.json", (source / "startup" / f"fed_{kind}.json").read_bytes())
    default = json.loads((source / "local" / f"{rules.RESOURCES}.default").read_bytes())
    if kind == "admin":
        rules.write_json(local / rules.RESOURCES, default)
    else:
        rules.write_json(local / rules.RESOURCES, rules.resources(role, default))
        rules.write_json(local / rules.AUTHORIZATION, rules.permissions(role))
        rules.write_json(local / rules.LOGS, rules.log_config())
        if role == "server":
            rules.write_json(local / rules.INSIDE, rules.inside())
    key = make_key()
    certificate = authority.certify(owner, key.public_key(), days)
    _write(startup / f"{role}.key", key_bytes(key))
    _write(startup / f"{role}.crt", certificate_bytes(certificate))
    _write(startup / ROOT, certificate_bytes(authority.certificate))


def _write(path: Path, content: bytes | str) -> None:
    data = content.encode() if isinstance(content, str) else content
    write_atomically(path, data, mode=OWNER_ONLY)


def _zip(folder: Path) -> Path:
    """Put a kit into one file, in place of its folder."""
    path = folder.with_name(f"{folder.name}.zip")
    path.touch(mode=OWNER_ONLY)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    shutil.rmtree(folder)
    return path

"""Kits made by hand, without the engine: the files that `Kit` reads, and an authority."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.operate import rules
from unlabel.operate.agreement import Agreement
from unlabel.operate.certificates import Authority, certificate_bytes, key_bytes, make_key
from unlabel.operate.federationfile import FederationFile, read_federation
from unlabel.operate.kit import AGREEMENT, PARTY, ROOT, Kit
from unlabel.operate.provision import AUTHORITY, AUTHORITY_KEY

DAYS = 30
NOW = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
FEDERATION = """\
active: {label: y}
passive: [{name: shop}, {name: bank}]
"""


def settings_of(folder: Path, text: str = FEDERATION) -> FederationFile:
    """Read a federation's file from text."""
    path = folder / "federation.yaml"
    path.write_text(text)
    return read_federation(path)


def make_kits(folder: Path, text: str = FEDERATION) -> Authority:
    """Write a kit a party and the authority, as of `NOW`."""
    settings = settings_of(folder, text)
    agreement = settings.agreement()
    authority = Authority.make(agreement.name, NOW)
    for name, party in settings.party_files(agreement.digest()).items():
        kit = folder / name
        role = "server" if name == ACTIVE else "client"
        for part in ("engine", "admin") if name == ACTIVE else ("engine",):
            (kit / part / "startup").mkdir(parents=True)
            (kit / part / "local").mkdir()
        (kit / AGREEMENT).write_text(agreement.dump())
        (kit / PARTY).write_text(party.dump())
        local = kit / "engine" / "local"
        rules.write_json(local / rules.AUTHORIZATION, rules.permissions(role))
        rules.write_json(local / rules.RESOURCES, rules.resources(role, ENGINE_DEFAULTS))
        for startup, base, owner in Kit.read(kit).certificates():
            key = make_key()
            made = authority.certify(owner, key.public_key(), DAYS, NOW)
            secret(startup / f"{base}.key", key_bytes(key))
            (startup / f"{base}.crt").write_bytes(certificate_bytes(made))
            (startup / ROOT).write_bytes(certificate_bytes(authority.certificate))
    write_authority(folder / AUTHORITY, authority, agreement)
    return authority


def write_authority(folder: Path, authority: Authority, agreement: Agreement) -> None:
    """Write the folder from which certificates are renewed."""
    folder.mkdir()
    (folder / AGREEMENT).write_text(agreement.dump())
    (folder / ROOT).write_bytes(certificate_bytes(authority.certificate))
    secret(folder / AUTHORITY_KEY, key_bytes(authority.key))


def secret(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read."""
    path.write_bytes(data)
    path.chmod(0o600)


#: The parts of the engine's own settings that our rules touch.
ENGINE_DEFAULTS = json.loads("""
{
  "format_version": 2,
  "class_list_enforcement_mode": "warn",
  "class_allow_list": ["*"],
  "allow_log_streaming": true,
  "snapshot_persistor": {"args": {"storage": {"args": {"root_dir": "/shared/snapshots"}}}},
  "components": [
    {"id": "job_manager", "args": {"uri_root": "/shared/jobs"}},
    {"id": "site_log_streamer", "args": {}},
    {"id": "log_receiver", "args": {}}
  ]
}
""")

"""Where things lie in a kit, and whom its certificates are for.

A kit holds no settings of any program but unlabel's own. Kits of 0.6 to 0.10 had the engine's too,
and their certificates among these (`engine/startup`, `admin/startup`): certificates are taken from
there, and nothing else in those folders is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unlabel.config import ServerSettings
from unlabel.data import ACTIVE
from unlabel.remote.certificates import ROLE, Identity

AGREEMENT, PARTY = "agreement.yaml", "party.yaml"
CERTIFICATES = "certificates"
#: The certificate of the authority; the second is its name up to 0.10.
ROOT, OLD_ROOT = "root.pem", "rootCA.pem"
#: Folders of kits up to 0.10 that held the engine's files.
OLD_FOLDERS = ("engine", "admin")
#: The name of the user who starts jobs of the engine, which wants the form of an e-mail address.
LEAD = f"{ROLE}@{ACTIVE}.unlabel"


@dataclass(frozen=True)
class Credential:
    """A certificate in a kit, its key, and whose it is.

    root  under which the certificate is checked
    """

    certificate: Path
    key: Path
    root: Path
    owner: Identity


def identities(party: str, server: ServerSettings) -> list[Identity]:
    """Return whom a party's certificates are for: the party, and who leads the engine's jobs.

    The active party is called, so that its certificate names the host under which it is reached.
    """
    if party != ACTIVE:
        return [Identity(party, party)]
    active = Identity(server.host, ACTIVE, host=server.host)
    lead = Identity(LEAD, ACTIVE, role=ROLE)
    return [active, lead] if server.carrier == "flare" else [active]


def credentials(folder: Path, party: str, server: ServerSettings) -> list[Credential]:
    """Return where a kit's certificates lie, the party's own first."""
    owners = identities(party, server)
    if is_of_old(folder):
        role = "server" if party == ACTIVE else "client"
        places = [folder / "engine" / "startup" / role, folder / "admin" / "startup" / "client"]
        root = OLD_ROOT
    else:
        places = [folder / CERTIFICATES / "party", folder / CERTIFICATES / "admin"]
        root = ROOT
    return [
        Credential(at.with_suffix(".crt"), at.with_suffix(".key"), at.with_name(root), owner)
        for at, owner in zip(places, owners, strict=False)
    ]


def is_of_old(folder: Path) -> bool:
    """Return whether a kit is laid out as those of 0.6 to 0.10 were."""
    return not (folder / CERTIFICATES).is_dir() and (folder / "engine" / "startup").is_dir()

"""The folder of whoever certifies the parties: keep it apart from the kits.

AUTHORITY/
  agreement.yaml   what all parties agreed on
  root.pem         the certificate under which all others are checked
  authority.key    its key; not there where an organisation's own authority signs
  issued.pem       every certificate of a party that was made out with this key
  revoked.pem      the newest list of those that are no longer to be taken
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from unlabel.config import Agreement
from unlabel.config.loader import read_agreement
from unlabel.errors import RunError, SettingsError, unknown
from unlabel.files import OWNER_ONLY, write_atomically
from unlabel.remote import revocation
from unlabel.remote.certificates import (
    Authority,
    Identity,
    certificate_bytes,
    owner_of,
    read_certificate,
    read_chain,
    read_key,
)
from unlabel.remote.kit_files import AGREEMENT, OLD_ROOT, ROOT, identities

AUTHORITY = "authority"
AUTHORITY_KEY, ISSUED, REVOKED = "authority.key", "issued.pem", "revoked.pem"


@dataclass(frozen=True)
class AuthorityFolder:
    """The authority of a federation, opened.

    folder     where it lies
    agreement  what all parties agreed on
    authority  its key and certificate
    """

    folder: Path
    agreement: Agreement
    authority: Authority

    @classmethod
    def open(cls, folder: Path) -> AuthorityFolder:
        """Open a folder that `unlabel federation init` made."""
        root = ROOT if (folder / ROOT).is_file() else OLD_ROOT
        for name in (root, AUTHORITY_KEY, AGREEMENT):
            if not (folder / name).is_file():
                raise RunError(
                    f"'{folder}' does not hold the authority of a federation: it has no {name}; "
                    f"give the folder 'authority' that `unlabel federation init` made, or ask your "
                    f"organisation's own authority where that one signs."
                )
        authority = Authority(read_certificate(folder / root), read_key(folder / AUTHORITY_KEY))
        if authority.key.public_key() != authority.certificate.public_key():
            raise RunError(f"The key and the certificate in '{folder}' do not belong together.")
        return cls(folder, read_agreement(folder / AGREEMENT)[0], authority)

    def owners(self, party: str) -> dict[str, Identity]:
        """Return for whom a party's certificates are made out, by their common names."""
        if party not in self.agreement.parties:
            raise SettingsError(unknown("party", party, self.agreement.parties))
        return {each.name: each for each in identities(party, self.agreement.server)}

    def issued(self) -> list[x509.Certificate]:
        """Return every certificate that was made out and noted here."""
        path = self.folder / ISSUED
        return read_chain(path) if path.is_file() else []

    def note(self, certificates: Iterable[x509.Certificate]) -> None:
        """Note certificates that were made out, so that they can be revoked."""
        data = b"".join(map(certificate_bytes, (*self.issued(), *certificates)))
        write_atomically(self.folder / ISSUED, data, mode=OWNER_ONLY)

    def revoke(
        self,
        party: str | None = None,
        serials: Sequence[int] = (),
        now: datetime.datetime | None = None,
    ) -> x509.CertificateRevocationList:
        """Add all certificates of a party, or those of some numbers, to the list; return it."""
        chosen = set(serials)
        if party is not None:
            self.owners(party)  # raises where there is no such party
            of_party = {
                each.serial_number for each in self.issued() if owner_of(each.subject)[1] == party
            }
            if not of_party:
                raise RunError(
                    f"'{self.folder}' has no note of certificates of '{party}', as those of 0.10 "
                    f"and before have none; give --serial, which `unlabel federation show` prints."
                )
            chosen |= of_party
        if not chosen:
            raise SettingsError("Expected --party or --serial: whose certificate is to be revoked?")
        path, number = self.folder / REVOKED, 1
        if path.is_file():
            (before,) = revocation.parse(path.read_bytes(), f"'{path}'")
            number = revocation.number_of(before) + 1
            chosen |= {each.serial_number for each in before}
        revoked = self.authority.revoke(sorted(chosen), number, now)
        write_atomically(path, revoked.public_bytes(Encoding.PEM), mode=OWNER_ONLY)
        return revoked

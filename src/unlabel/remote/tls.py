"""Who speaks with whom: TLS 1.3 in which both ends show a certificate of the federation.

The label holder's process answers as the server, each passive party's process calls. Either end
takes certificates of the federation's own authority and of nobody else, and then looks whose it is:
the server must be the agreed host of the active party, a caller one of the agreed passive parties.
The same contexts serve a connection of their own and frames that somebody else carries.
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Any

from unlabel.data import ACTIVE
from unlabel.errors import RunError, WireError
from unlabel.remote.revocation import expect_not_revoked

if TYPE_CHECKING:
    from unlabel.remote.kit import Kit

#: Seconds between two looks at whether the other end's certificate still holds.
RECHECK = 20.0
#: What a handshake that failed at either end means, by the code that OpenSSL gives it.
REASONS = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": (
        "our certificate has expired; see `unlabel federation renew`"
    ),
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the certificate was revoked",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not of this federation's authority",
    "TLSV1_ALERT_UNKNOWN_CA": "our certificate is not of its federation's authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "our certificate was refused",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "HTTP_REQUEST": "it does not speak TLS",
}
#: Why a certificate did not hold, by OpenSSL's X509_V_ERR_...; the others mean another authority.
UNVERIFIED = {
    9: "its certificate is not valid yet; compare the clocks",
    10: "its certificate has expired; see `unlabel federation renew`",
    23: "the certificate was revoked",
    26: "its certificate is not one of a server",
    62: "its certificate is for another host",
    64: "its certificate is for another host",
}


def server_context(kit: Kit) -> ssl.SSLContext:
    """Return the settings of the label holder's end, read from the kit's files as they are now."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, kit)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # no connection goes on where another ended
    return context


def client_context(kit: Kit) -> ssl.SSLContext:
    """Return the settings of a passive party's end, read from the kit's files as they are now."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, kit)  # which checks certificate and host


def _context(protocol: Any, kit: Kit) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    # Whatever the kit's root.pem holds is trusted, also where somebody else has signed that.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(kit.root)
        context.load_cert_chain(kit.certificate, kit.key)
    except (OSError, ssl.SSLError) as error:
        raise RunError(
            f"The certificate of kit '{kit.folder}' cannot be used ({why(error)}); see `unlabel "
            f"federation show {kit.folder}`."
        ) from error
    return context


def caller(kit: Kit, certificate: dict[str, Any] | None) -> str:
    """Return which passive party has called, or raise `WireError`.

    certificate  as `ssl` gives it, once the handshake has checked it
    """
    name, organisation = _owner(certificate)
    if name not in kit.agreement.passive or organisation != name:
        raise WireError(f"a caller shows the certificate of '{name}', which is no passive party")
    expect_not_revoked(kit, certificate)
    return name


def expect_server(kit: Kit, certificate: dict[str, Any] | None) -> None:
    """Raise `WireError` unless the other end is the active party's; its host was checked before."""
    _, organisation = _owner(certificate)
    if organisation != ACTIVE:
        raise WireError(f"the server shows a certificate of '{organisation}', not of '{ACTIVE}'")
    expect_not_revoked(kit, certificate)


def expect_valid(kit: Kit, certificate: dict[str, Any] | None) -> None:
    """Raise `WireError` unless the other end's certificate holds still, as time goes by."""
    expect_not_revoked(kit, certificate)
    ends = ssl.cert_time_to_seconds(str((certificate or {})["notAfter"]))
    if time.time() > ends:
        raise WireError("its certificate has expired; see `unlabel federation renew`")


def _owner(certificate: dict[str, Any] | None) -> tuple[str, str]:
    """Return common name and organisation, "" for one that is missing or stands there twice."""
    pairs = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    organisations = [value for key, value in pairs if key == "organizationName"]
    return (
        str(names[0]) if len(names) == 1 else "",
        str(organisations[0]) if len(organisations) == 1 else "",
    )


def why(error: Exception) -> str:
    """Return in plain words why a handshake or a connection failed.

    >>> why(ConnectionResetError(104, "Connection reset by peer"))
    'connection reset by peer'
    """
    text = str(error).lower()
    known = REASONS.get(getattr(error, "reason", None) or "")
    if isinstance(error, ssl.SSLCertVerificationError):
        known = UNVERIFIED.get(error.verify_code, known)
    if known is None and isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        known = error.strerror and error.strerror.lower()
    return known or text.splitlines()[0] if text else type(error).__name__

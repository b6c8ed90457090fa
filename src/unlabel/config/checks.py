"""How a setting that cannot work is refused."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Mapping

from unlabel.errors import SettingsError, unknown
from unlabel.signing import PUBLIC, is_hex


def expect(name: str, value: object, holds: bool, accepted: str) -> None:
    """Raise `SettingsError` unless a setting holds what it must."""
    if not holds:
        raise SettingsError(f"Expected `{name}` to be {accepted} but got {value}.")


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise `SettingsError`, with the nearest spelling, unless a setting has a known value."""
    if value not in known:
        raise SettingsError(unknown(name, value, known))


def is_this_machine(host: str) -> bool:
    """Return whether only this machine itself can reach an address.

    >>> is_this_machine("localhost"), is_this_machine("::1"), is_this_machine("0.0.0.0")
    (True, True, False)
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_trust(trust: Mapping[str, str]) -> None:
    """Raise unless every key of a party is a public Ed25519 key in hexadecimal."""
    for party, key in trust.items():
        accepted = f"a public key of {PUBLIC} small hexadecimal digits"
        expect(f"trust.{party}", repr(str(key)[:40]), is_hex(key, PUBLIC), accepted)

"""How the command `unlabel` ends: the exit status that a script reads.

| 0   | done |
| 1   | could not be done; one sentence on standard error says why and what to do |
| 2   | the command line itself is wrong |
| 3   | done, and the answer is no: the demanded depth is not reached, a certificate does not hold |
| 130 | interrupted |
"""

from __future__ import annotations

from unlabel.errors import CertificateError, UnlabelError, UsageError

DONE = 0
ERROR = 1
USAGE = 2
NOT_PASSED = 3
INTERRUPTED = 130


def status_of(error: UnlabelError) -> int:
    """Return the exit status of a command that an error ended."""
    if isinstance(error, UsageError):
        return USAGE
    return NOT_PASSED if isinstance(error, CertificateError) else ERROR

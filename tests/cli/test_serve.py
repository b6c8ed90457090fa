"""`unlabel serve`: where it listens, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli.command_line import QUICK, address_of, one_thread, unlabel
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "run"
    assert unlabel("train", *QUICK, "--out", folder).code == 0
    return folder


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for this machine, signed by itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(*form, serialization.NoEncryption()))
    return paths


def test_it_answers_over_tls_to_who_has_the_token_and_ends_when_asked(
    run: Path, tmp_path: Path
) -> None:
    certificate, key = write_certificate(tmp_path)
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    words = ["serve", run, "--port", 0, "--certificate", certificate, "--key", key]
    program = [sys.executable, "-m", "unlabel", *map(str, words), "--token", str(token)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        address = address_of(server)
        context = ssl.create_default_context(cafile=str(certificate))
        asked = urllib.request.Request(
            f"{address}/predict",
            json.dumps({"ids": ["0", "1"]}).encode(),
            {"content-type": "application/json", "authorization": "Bearer 0123456789abcdef"},
        )
        with urllib.request.urlopen(asked, context=context, timeout=60) as reply:
            body = json.load(reply)
        server.send_signal(signal.SIGTERM)
        _, rest = server.communicate(timeout=60)
    assert (server.returncode, body["version"], len(body["predictions"])) == (0, 1, 2)
    assert "POST /predict 200" in rest
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--host", "0.0.0.0"), "TLS"),
        (("--host", "::"), "TLS"),
        (("--host", "example.org"), "TLS"),
        (("--key", "key.pem"), "both"),
        (("--certificate", "run.yaml", "--key", "run.yaml"), "PEM"),
        (("--port", "70000"), "65535"),
        (("--batch", "0"), "rows"),
        (("--token", "nothing-there"), "token"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    run: Path, flags: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    assert words in unlabel("serve", run, "--port", "0", *flags).sentence


def test_a_token_that_others_may_read_or_that_is_short_is_refused(
    run: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o644)
    assert "chmod" in unlabel("serve", run, "--token", token).sentence
    token.chmod(0o600)
    token.write_text("short")
    assert "16" in unlabel("serve", run, "--token", token).sentence


def test_a_port_that_is_taken_and_a_folder_without_a_run_are_said(
    run: Path, tmp_path: Path
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = unlabel("serve", run, "--port", other.getsockname()[1])
    assert "Cannot listen" in taken.sentence
    assert unlabel("serve", tmp_path / "nothing").sentence

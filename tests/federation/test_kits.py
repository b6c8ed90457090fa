"""Kits as they are provisioned: no secret beside its owner's, and the engine obeys our rules."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import nothing_written, unlabel
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from small_parties import settings_of

from unlabel.errors import RunError
from unlabel.remote.certificates import ROLE, read_certificate, read_key
from unlabel.remote.engine_files import write_engine_files
from unlabel.remote.job import write_job
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import LEAD
from unlabel.remote.provision import provision
from unlabel.remote.rules import ALLOWED

TEXT = """\
name: loans
server: {host: bank.example, port: 8443, carrier: flare}
active: {label: y}
passive: [{name: shop}, {name: my-mill, policy: {max_rows: 50}}]
days: 90
"""
PARTIES = ("active", "shop", "my-mill")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provisioned")
    settings_of(folder, TEXT)
    found = provision(folder / "federation.yaml", folder / "kits")
    assert found == {name: folder / "kits" / name for name in (*PARTIES, "authority")}
    return folder / "kits"


@pytest.fixture(scope="module")
def started(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits with what a start writes for the engine."""
    kits = Path(shutil.copytree(made, tmp_path_factory.mktemp("started") / "kits"))
    for party in PARTIES:
        write_engine_files(Kit.open(kits / party))
    return kits


def test_every_party_can_open_its_kit(made: Path) -> None:
    kits = [Kit.open(made / party) for party in PARTIES]
    assert len({kit.digest for kit in kits}) == 1
    assert len({(kit.folder / "agreement.yaml").read_bytes() for kit in kits}) == 1
    assert kits[2].policy.max_rows == 50
    found = read_certificate(kits[1].certificate)
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days == 90


def test_a_private_key_lies_in_its_own_kit_and_nowhere_else(made: Path) -> None:
    files = {str(p.relative_to(made)): p.read_bytes() for p in made.rglob("*") if p.is_file()}
    owners = {}
    for place, data in files.items():
        if b"PRIVATE" in data:
            load_pem_private_key(data, None)
            line = data.splitlines()[:-1][-1][
                :40
            ]  # a piece of the key, in whatever a file wraps it
            owners[place] = [other for other, text in files.items() if line in text]
    assert owners == {
        place: [place]
        for place in (
            "active/certificates/admin.key",
            "active/certificates/party.key",
            "active/secrets/signing.key",
            "authority/authority.key",
            "authority/secrets/signing.key",
            "my-mill/certificates/party.key",
            "my-mill/secrets/signing.key",
            "shop/certificates/party.key",
            "shop/secrets/signing.key",
        )
    }
    root = read_certificate(made / "authority" / "root.pem")
    assert read_key(made / "authority" / "authority.key").public_key() == root.public_key()


def test_everything_is_for_its_owner_only(made: Path) -> None:
    for path in (made, *made.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def rules_of(started: Path, party: str, name: str) -> dict[str, Any]:
    found = json.loads((started / party / "state" / "engine" / "local" / name).read_bytes())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("party", PARTIES)
def test_the_engine_lets_nobody_bring_code_or_look_around(started: Path, party: str) -> None:
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    site = FLAuthorizer(party, rules_of(started, party, "authorization.json"))
    lead = Person(LEAD, "active", ROLE)

    def may(right: str, user: Person = lead) -> bool:
        return bool(site.authorize(AuthzContext(right, user, lead))[0])

    assert may("submit_job")
    assert may("abort_job")
    assert may("check_status")
    never = ("byoc", "server-predeployed-flwr", "clone_job", "cat", "ls", "grep", "tail")
    assert [right for right in never if may(right)] == []
    # A partner's site is shut down and set up by its own operator.
    afar = ("shutdown", "restart", "sys_info", "configure_site_log", "download_job")
    assert {may(right) for right in afar} == {party == "active"}
    for role in ("project_admin", "org_admin", "member", ""):
        other = Person("eve@shop.example", party, role)
        rights = ("submit_job", "byoc", "abort_job", "check_status", "shutdown", "cat")
        assert [right for right in rights if may(right, other)] == []


@pytest.mark.parametrize("party", PARTIES)
def test_a_job_may_name_the_bridge_and_nothing_else(started: Path, party: str) -> None:
    from nvflare.apis.fl_exception import UnsafeComponentError
    from nvflare.apis.workspace import Workspace
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer

    workspace = Workspace(str(started / party / "state" / "engine"), site_name=party)
    judge = ComponentPathAuthorizer()
    role = "server" if party == "active" else "client"
    for path in ALLOWED[role]:
        judge.authorize_component_config({"path": path}, workspace=workspace)
    other = "client" if role == "server" else "server"
    for path in (
        *ALLOWED[other],
        "subprocess.Popen",
        "unlabel.remote.kit.Kit",
        "nvflare.app_common.np.np_trainer.NPTrainer",
        "nvflare.app_common.logging.job_log_streamer.JobLogStreamer",
        "nvflare.app_common.launchers.subprocess_launcher.SubprocessLauncher",
    ):
        with pytest.raises(UnsafeComponentError, match="not in allow_list"):
            judge.authorize_component_config({"path": path}, workspace=workspace)


def test_the_one_job_names_exactly_what_is_allowed_and_brings_no_code(tmp_path: Path) -> None:
    job = write_job(tmp_path, 2)
    files = [path for path in job.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    for role, allowed in ALLOWED.items():
        found = next(path for path in files if path.name == f"config_fed_{role}.json")
        assert set(classes_in(json.loads(found.read_bytes()))) == set(allowed)


def classes_in(config: Any) -> list[str]:
    """Return every class that a job's configuration names, however deep."""
    if isinstance(config, list):
        return [name for part in config for name in classes_in(part)]
    if not isinstance(config, dict):
        return []
    own = [str(config[key]) for key in ("path", "class_path", "name") if key in config]
    return own + [name for part in config.values() for name in classes_in(part)]


@pytest.mark.parametrize("party", PARTIES)
def test_no_log_leaves_a_site(started: Path, party: str) -> None:
    found = rules_of(started, party, "resources.json")
    assert found["allow_log_streaming"] is False
    assert not [part for part in found["components"] if "log" in part["id"]]
    logs = rules_of(started, party, "log_config.json")
    assert logs["loggers"]["root"]["level"] == "INFO"
    assert {handler["level"] for handler in logs["handlers"].values()} >= {"INFO"}
    assert "DEBUG" not in json.dumps(logs)


def test_the_engine_meets_at_one_port_under_mutual_tls(started: Path) -> None:
    server = json.loads((started / "active/state/engine/startup/fed_server.json").read_bytes())[
        "servers"
    ][0]
    assert server["service"]["target"] == "bank.example:8443"
    assert (server["admin_port"], server["connection_security"]) == (8443, "mtls")
    for party in PARTIES[1:]:
        client = json.loads((started / party / "state/engine/startup/fed_client.json").read_bytes())
        assert client["servers"][0]["service"]["target"] == "bank.example:8443"
        assert client["servers"][0]["identity"] == "bank.example"
        assert client["client"]["connection_security"] == "mtls"
        assert client["client"]["fqsn"] == party
    admin = json.loads((started / "active/state/admin/startup/fed_admin.json").read_bytes())[
        "admin"
    ]
    assert (admin["username"], admin["connection_security"]) == (LEAD, "mtls")


def test_the_engine_accepts_what_the_lead_signs(started: Path, tmp_path: Path) -> None:
    from nvflare.lighter.utils import sign_folders, verify_folder_signature

    startup = started / "active" / "state" / "admin" / "startup"
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "meta.json").write_text("{}")
    sign_folders(
        str(tmp_path / "job"), read_key(startup / "client.key"), str(startup / "client.crt")
    )
    assert verify_folder_signature(str(tmp_path / "job"), str(startup / "rootCA.pem"))
    (tmp_path / "job" / "meta.json").write_text('{"a": 1}')
    assert not verify_folder_signature(str(tmp_path / "job"), str(startup / "rootCA.pem"))


def test_a_kit_can_be_handed_over_in_one_file(tmp_path: Path) -> None:
    settings_of(tmp_path, TEXT)
    found = unlabel(
        "federation",
        "init",
        tmp_path / "federation.yaml",
        "--out",
        tmp_path / "k",
        "--zip",
        "--json",
    ).json["kits"]
    assert sorted(path.name for path in (tmp_path / "k").iterdir()) == [
        *("active", "authority", "my-mill.zip", "shop.zip")
    ]
    assert found["shop"] == str(tmp_path / "k" / "shop.zip")
    assert stat.S_IMODE(Path(found["shop"]).stat().st_mode) == 0o600
    with zipfile.ZipFile(found["shop"]) as archive:
        archive.extractall(tmp_path)
        modes = {
            info.external_attr >> 16 & 0o777 for info in archive.infolist() if not info.is_dir()
        }
    assert modes == {0o600}  # which `unzip` gives back; Python's own does not
    with pytest.raises(RunError):
        Kit.open(tmp_path / "shop")
    for key in (tmp_path / "shop").rglob("*.key"):
        key.chmod(0o600)
    assert Kit.open(tmp_path / "shop").name == "shop"


@pytest.mark.parametrize("fault", ["settings", "full", "file", "key", "no file"])
def test_a_failure_leaves_nothing_behind(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    settings_of(tmp_path, TEXT)
    file, out = tmp_path / "federation.yaml", tmp_path / "kits"
    if fault == "settings":
        file.write_text(TEXT.replace("days: 90", "days: -1"))
        words = "`days`"
    elif fault == "full":
        out.mkdir()
        (out / "mine.txt").write_text("mine")
        words = f"'{out}'"
    elif fault == "file":
        out.write_text("mine")
        words = f"'{out}'"
    elif fault == "key":

        def fail(*words: object, **options: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("unlabel.remote.provision.key_bytes", fail)
        words = "No space left"
    else:
        file = tmp_path / "nothing.yaml"
        words = f"'{file}'"
    with nothing_written(tmp_path):
        assert words in unlabel("federation", "init", file, "--out", out).sentence


def test_an_empty_folder_may_take_the_kits(tmp_path: Path) -> None:
    settings_of(tmp_path, TEXT)
    (tmp_path / "kits").mkdir()
    shown = unlabel("federation", "init", tmp_path / "federation.yaml", "--out", tmp_path / "kits")
    assert shown.code == 0
    assert "private keys of active, shop, my-mill were made here" in " ".join(shown.err.split())
    assert "hand to shop" in shown.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["federation.yaml", "kits"]
    shutil.rmtree(tmp_path / "kits")

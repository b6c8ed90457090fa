"""What the parties agree on, what each decides for itself, and how a mistake is named."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_parties import make_kits, settings_of

from unlabel.config import MACHINE_SETTINGS, Agreement, PartyFile, TrainSettings
from unlabel.config.loader import agreement_digest, dump, read_agreement, read_party
from unlabel.errors import RunError, SettingsError
from unlabel.remote.engine_files import write_engine_files
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import free_port

HETERO = """\
active: {label: y}
passive: [{name: host}]
model: {bottom: mlp}
train: {epochs: 5}
"""


def test_two_organisations_need_four_lines(tmp_path: Path) -> None:
    found = settings_of(tmp_path, HETERO)
    agreement = found.agreement()
    assert agreement.parties == ["active", "host"]
    assert (agreement.server.host, agreement.server.port) == ("localhost", 8002)
    assert (agreement.train.epochs, agreement.timeout) == (5, 60)
    assert agreement.predict.missing == "refuse"
    parties = found.party_files(agreement_digest(agreement))
    assert (parties["active"].label, parties["active"].id) == ("y", "id")
    assert parties["host"].label is None


def test_the_agreement_says_nothing_that_a_party_decides_for_itself(tmp_path: Path) -> None:
    text = """\
active: {label: secret_label, id: secret_id, features: [secret_column]}
passive: [{name: host, id: other_id, features: [other_column], policy: {max_rows: 4321}}]
defend: {gradients: ["gaussian:clip=1:sigma=0.125"], embeddings: ["gaussian:clip=2:sigma=0.375"]}
audit: {demand: deep}
watch: {mode: warn}
"""
    found = settings_of(tmp_path, text)
    agreed = dump(found.agreement())
    hidden = "secret_label secret_id secret_column other_id other_column 4321 0.125 0.375 deep warn"
    assert [word for word in hidden.split() if word in agreed] == []
    own = set(yaml.safe_load(agreed)["train"])
    assert own == {f.name for f in fields(TrainSettings)} - {"seed", "remember", *MACHINE_SETTINGS}
    parties = found.party_files("digest")
    assert parties["active"].defend == ["gaussian:clip=1:sigma=0.125"]
    assert parties["host"].defend == ["gaussian:clip=2:sigma=0.375"]
    assert "secret_label" not in dump(parties["host"])
    assert "4321" not in dump(parties["active"])


def test_the_digest_is_that_of_the_files_content(tmp_path: Path) -> None:
    agreement = settings_of(tmp_path, HETERO).agreement()
    path = tmp_path / "agreement.yaml"
    path.write_text("# said so\n" + dump(agreement))
    reread, digest = read_agreement(path)
    assert reread == agreement
    content = yaml.safe_load(dump(agreement))
    form = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert digest == agreement_digest(agreement) == hashlib.sha256(form.encode()).hexdigest()
    # A setting that the file does not know yet is not part of what was agreed.
    del content["predict"]
    path.write_text(yaml.safe_dump(content))
    without, other = read_agreement(path)
    assert without == agreement
    assert other != digest


def test_bottoms_of_single_parties_are_agreed_on(tmp_path: Path) -> None:
    text = "active: {label: y}\npassive: [{name: a, bottom: 'mine:net'}, {name: b}]\n"
    model = settings_of(tmp_path, text).agreement().model
    assert (model.bottom_of("a"), model.bottom_of("b")) == ("mine:net", "mlp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {seed: 3}", "no `train.seed`: each party sets its own `seed` in party.yaml"),
        ("train: {device: cuda}", "`train.device`"),
        ("train: {remember: [3]}", "`train.remember`"),
        ("defend: {seed: 1}", "`defend.seed`"),
        ("align: {method: plaintext}", "different organisations"),
        ("server: {port: 0}", "`server.port` to be from 1 to 65535"),
        ("server: {host: 'a b'}", "`server.host`"),
        ("server: {prot: 8002}", "Unknown setting under `server` 'prot'. Did you mean 'port'?"),
        ("predict: {missing: skip}", "`predict.missing` got 'skip' but accepts"),
        ("timeout: 0", "`timeout` to be above 0"),
        ("timeout: .inf", "`timeout` to be above 0"),
        ("days: 0", "`days` to be from 1 to 3650"),
        ("name: 'a/b'", "`name`"),
        ("model: {bottoms: {nobody: mlp}}", "names 'nobody', which is no party"),
        ("server: {host: host}", "another name than `server.host`"),
        ("epoch: 3", "Unknown setting 'epoch'"),
    ],
)
def test_a_mistake_is_named_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings_of(tmp_path, f"active: {{label: y}}\npassive: [{{name: host}}]\n{text}\n")
    assert words in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'federation.yaml'}: ")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["server"], "'server', which is taken"),
        (["Active"], "'Active', which is taken"),
        (["authority"], "'authority', which is taken"),
        (["tensorboard"], "'tensorboard', which is taken"),
        (["ü"], "A-Z, a-z, 0-9"),
        (["-a"], "at both ends"),
        (["a" * 64], "up to 63"),
        (["../a"], "letters, digits"),
        (["shop", "Shop"], "different names"),
        ([], "1 to 8 passive parties"),
        ([f"p{i}" for i in range(9)], "1 to 8 passive parties"),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(
    tmp_path: Path, names: list[str], words: str
) -> None:
    passive = json.dumps([{"name": name} for name in names])
    with pytest.raises(SettingsError, match=words):
        settings_of(tmp_path, f"active: {{label: y}}\npassive: {passive}\n")


def test_a_party_has_its_own_copy_of_every_setting_of_the_machine() -> None:
    defaults = asdict(TrainSettings())
    own = {f.name: f.default for f in fields(PartyFile)}
    assert {n: own[n] for n in MACHINE_SETTINGS} == {n: defaults[n] for n in MACHINE_SETTINGS}


@pytest.mark.parametrize(
    "given",
    [
        {"name": "active", "label": "y", "features": "none", "audit": {"demand": "bottoms"}},
        {"name": "active", "label": "y", "monitor": {"mode": "warn"}, "remember": [1, 2]},
        {"name": "shop", "features": ["a", "b"], "policy": {"max_rows": 7}, "code": "models"},
        {"name": "shop", "seed": 7, "device": "cuda:1", "precision": "bf16", "save_every": 2},
    ],
)
def test_a_partys_file_comes_back_as_it_was_written(tmp_path: Path, given: dict[str, Any]) -> None:
    path = tmp_path / "party.yaml"
    path.write_text(yaml.safe_dump({"agreement": "0" * 64, **given}))
    found = read_party(path)
    path.write_text(dump(found))
    assert read_party(path) == found
    for name in given.keys() - {"audit", "monitor", "policy", "code", "remember"}:
        assert getattr(found, name) == given[name]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "active"}, "`label` is missing"),
        ({"name": "active", "label": "y", "policy": {}}, "no `policy` here"),
        ({"name": "shop", "label": "y"}, "no `label` here"),
        ({"name": "shop", "audit": {}}, "no `audit` here"),
        ({"name": "shop", "remember": [1]}, "no `remember` here"),
        ({"name": "shop", "features": "none"}, "to have features"),
        ({"name": "shop", "seed": -1}, "`seed` to be 0 or more"),
        ({"name": "shop", "device": "tpu"}, "Unknown device 'tpu'"),
        ({"name": "shop", "polcy": {}}, "Did you mean 'policy'?"),
    ],
)
def test_a_mistake_in_a_partys_file_is_named(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    path = tmp_path / "party.yaml"
    path.write_text(yaml.safe_dump({"agreement": "0" * 64, **given}))
    with pytest.raises(SettingsError) as error:
        read_party(path)
    assert words in str(error.value)


def test_an_agreement_whose_first_party_is_not_the_active_one_is_refused() -> None:
    known = settings_of_nothing()
    with pytest.raises(SettingsError, match=r"'active'"):
        Agreement(**{**known, "parties": ["shop", "active"]})


def settings_of_nothing() -> dict[str, Any]:
    from unlabel.config import ModelSettings, ServerSettings

    made = {"server": ServerSettings(), "model": ModelSettings(), "train": TrainSettings()}
    return {"name": "f", "parties": ["active", "shop"], **made}


#: Stands in for an installation without the engine: its packages cannot be imported.
WITHOUT = """
import sys
for name in ("nvflare", "psutil"):
    sys.modules[name] = None
from pathlib import Path
from unlabel.remote.carriers import carrier_of
from unlabel.remote.kit import Kit
from unlabel.remote.provision import provision
kits = provision(Path(sys.argv[1]), Path(sys.argv[2]))
kit = Kit.open(kits["active"])
with kit.lock(), carrier_of(kit, None, print) as carrier:
    print(type(carrier).__name__, carrier.state())
    carrier.close()
"""


def test_a_direct_federation_needs_no_engine(tmp_path: Path) -> None:
    text = f"server: {{port: {free_port()}}}\nactive: {{label: y}}\npassive: [{{name: shop}}]\n"
    settings_of(tmp_path, text)
    words = ("-c", WITHOUT, tmp_path / "federation.yaml", tmp_path / "kits")
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list((tmp_path / "kits").rglob("*engine*"))


def test_kits_are_made_without_the_engine_and_a_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvflare", "nvflare.lighter", "nvflare.lighter.constants"):
        monkeypatch.setitem(sys.modules, name, None)
    make_kits(tmp_path, HETERO)
    kit = Kit.open(tmp_path / "active")
    with pytest.raises(RunError, match=r"pip install 'unlabel\[federation,flare\]'"):
        write_engine_files(kit)
    assert not kit.engine.exists()

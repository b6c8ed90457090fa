"""Small federations whose bottoms are made without labels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
from federation.test_predicting import Scene, here
from safetensors.torch import load_file
from small_parties import LABELS, PARTIES, PASSIVE, person, provisioned, write_tables
from torch import Tensor

from unlabel import Federation
from unlabel.config import PassiveTable, Policy, RunConfig
from unlabel.config.loader import dump, read_party
from unlabel.data import ACTIVE
from unlabel.remote.connect import RemoteFederation
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import PARTY

#: People whom the active party gets to know only after the training.
NEW = [person(number) for number in range(400, 420)]
#: Columns of `shop` that the active party has too, where it is to have features.
SHARED = ["x3", "x10", "x11"]
#: Contrast of two passes, two steps each.
CONTRAST = "{objective: contrast, epochs: 2, batch: 200, across: ACROSS}"


def contrast(*, across: bool) -> str:
    """Return settings of a short contrast."""
    return CONTRAST.replace("ACROSS", "yes" if across else "no")


def set_up(
    folder: Path,
    bottoms: str,
    *,
    label_free: str = "{}",
    train: str = "{}",
    features: bool = False,
    policy: str = "{}",
    predict: str = "refuse",
    port: int = 8002,
    timeout: float = 60.0,
) -> dict[str, Path]:
    """Write tables and kits of three parties that all draw from seed 0; return the kits.

    features  whether the active party has some
    policy    of `shop`
    """
    folder.mkdir(exist_ok=True)
    tables = write_tables(folder)
    table = pd.read_csv(tables[ACTIVE])
    if features:
        shop = pd.read_csv(tables["shop"])[["id", *SHARED]]
        table = table.merge(shop, on="id")
    table[~table["id"].isin(NEW)].to_csv(tables[ACTIVE], index=False)
    text = (
        f"name: small\n"
        f"server: {{host: localhost, port: {port}}}\n"
        f"active: {{label: animal}}\n"
        f"passive: [{{name: shop, policy: {policy}}}, {{name: loan}}]\n"
        f"model: {{bottom: mlp}}\n"
        f"bottoms: {bottoms}\n"
        f"label_free: {label_free}\n"
        f"fit: {{epochs: 10}}\n"
        f"train: {train}\n"
        f"predict: {{missing: {predict}}}\n"
        f"timeout: {timeout}\n"
    )
    return provisioned(folder, text, seed=0)


def change_policy(kit: Path, **changes: object) -> None:
    """Have the operator of a passive party change its policy; it holds from the next start."""
    file = kit / PARTY
    party = read_party(file)
    policy = replace(party.policy or Policy(), **changes)  # type: ignore[arg-type]
    changed = replace(party, policy=policy)
    file.write_text(dump(changed), encoding="utf-8")


@contextlib.contextmanager
def connected(scene: Scene, *, resume: bool = False) -> Iterator[RemoteFederation]:
    """Connect to the parties of a scene."""
    with Federation.connect(scene.kit.folder, resume=resume) as federation:
        yield federation


def align_in(folder: Path) -> None:
    """Align the rows of all parties, and train nothing yet."""
    with here(folder) as scene, connected(scene, resume=True):
        pass


def together(folder: Path) -> RunConfig:
    """Return what the parties of a folder agreed on as a run in one process."""
    config = Kit.read(folder / "kits" / ACTIVE).run_config(folder / f"{ACTIVE}.csv")
    passive = [PassiveTable(name=name, table=folder / f"{name}.csv") for name in PASSIVE]
    return replace(config, passive=passive)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return everything that lies in a folder, byte for byte."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def base_of(home: Path) -> dict[str, Tensor]:
    """Return the bottom that a passive party keeps for good."""
    return load_file(home / "base" / "000001.safetensors")


def homes_in(folder: Path) -> Mapping[str, Path]:
    """Return each party's home in a folder of kits."""
    return {name: Kit.read(folder / "kits" / name).home for name in PARTIES}


__all__ = ["LABELS", "PARTIES", "PASSIVE", "Scene", "here"]

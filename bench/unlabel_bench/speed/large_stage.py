"""One stage of a large table in a process of its own, with its seconds and its memory.

`python -m unlabel_bench.speed.large_stage STAGE FOLDER [NAME]` prints one line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unlabel_bench.speed.audited import peak_bytes

#: The label that is forgotten.
FORGOTTEN = "kind 2"


def read(folder: Path, name: str) -> dict[str, Any]:
    """Read one party's table into features, as its process does when it starts."""
    from unlabel.data import read_table

    party = Path(name).name.split(".")[0]
    table = read_table(
        folder / name, id_column="id", label_column="kind" if party == "bank" else None
    )
    return {"used": len(table.features())}


def match(folder: Path, name: str) -> dict[str, Any]:
    """Match the ids of the label holder with those of the partner's process, over a socket."""
    from unlabel.align import align
    from unlabel_bench.speed.large_party import ids_in, linked

    with linked(folder, name) as transport:
        alignment = align(transport, ids_in(folder, "bank"))
    return {"used": len(alignment), "party_peak_bytes": transport.peak_bytes}


def train(folder: Path, name: str) -> dict[str, Any]:
    """Read the tables, match them and train, all parties in one process."""
    from unlabel.config.loader import read_run
    from unlabel.federation import Federation

    federation = Federation.create(read_run(folder / f"{name}.yaml"), folder / "run")
    opened = time.perf_counter()
    federation.train()
    return {"used": len(federation.holdings.ids), "after": time.perf_counter() - opened}


def forget(folder: Path, name: str) -> dict[str, Any]:  # noqa: ARG001
    """Open the run and forget a label by the default method."""
    from unlabel.config import ForgetSettings
    from unlabel.federation import Federation

    federation = Federation.open(folder / "run")
    opened = time.perf_counter()
    federation.forget([FORGOTTEN], settings=ForgetSettings(measure_drift=False))
    return {"after": time.perf_counter() - opened}


def audit(folder: Path, name: str) -> dict[str, Any]:  # noqa: ARG001
    """Open the run and audit what was forgotten."""
    from unlabel.federation import Federation

    federation = Federation.open(folder / "run")
    opened = time.perf_counter()
    facts = federation.audit(demand="none").facts
    seen = facts.observed or facts.rows
    return {
        "after": time.perf_counter() - opened,
        "seen": sum(seen[part] for part in ("train", "test")),
    }


def commit(folder: Path, name: str) -> dict[str, Any]:  # noqa: ARG001
    """Open the run, commit the request and purge what was before it."""
    from unlabel.federation import Federation

    federation = Federation.open(folder / "run")
    opened = time.perf_counter()
    federation.commit(force=True)
    federation.purge()
    return {"after": time.perf_counter() - opened}


def network(folder: Path, name: str) -> dict[str, Any]:
    """Do one of these verbs over a federation: the hub and the partner are processes of their own.

    The first one matches the ids too. `party_peak_bytes` is of the partner's process.
    """
    from unlabel.config import ForgetSettings
    from unlabel.federation import Federation
    from unlabel.remote.local_cluster import LocalCluster, free_port
    from unlabel.remote.provision import provision

    kits = folder / "kits"
    if name == "train":
        shutil.rmtree(kits, ignore_errors=True)
        agreed = folder / "federation.yaml"
        agreed.write_text(
            f"server: {{port: {free_port()}}}\nactive: {{label: kind}}\npassive: [{{name: shop}}]\n"
            "model: {bottom: mlp}\ntrain: {epochs: 1, batch: 256}\ntimeout: 600\n"
        )
        provision(agreed, kits)
    tables = {"active": folder / "bank.parquet", "shop": folder / "shop.parquet"}
    with LocalCluster({party: kits / party for party in tables}, tables) as cluster:
        with Federation.connect(kits / "active", resume=name == "train") as federation:
            opened = time.perf_counter()
            if name == "train":
                federation.train()
            elif name == "forget":
                federation.forget([FORGOTTEN], settings=ForgetSettings(measure_drift=False))
            elif name == "audit":
                federation.audit(demand="none")
            else:
                federation.commit(force=True)
                federation.purge()
        peaks = {party: _peak_of(each.pid) for party, each in cluster.processes.items()}
    return {
        "after": time.perf_counter() - opened,
        "party_peak_bytes": peaks["shop"],
        "hub_peak_bytes": peaks["active"],
    }


def _peak_of(process: int) -> int:
    """Return the most memory that a process that still runs has held."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


STAGES: dict[str, Callable[[Path, str], dict[str, Any]]] = {
    stage.__name__: stage for stage in (read, match, train, forget, audit, commit, network)
}


def main(stage: str, folder: str, name: str = "") -> None:
    """Carry out one stage and print what it took; libraries are imported before the clock runs."""
    import unlabel.federation  # noqa: F401

    began, worked = time.perf_counter(), time.process_time()
    before = peak_bytes()
    facts = STAGES[stage](Path(folder), name)
    line = {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - worked,
        "peak_bytes": peak_bytes(),
        "start_bytes": before,
        **facts,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main(*sys.argv[1:])

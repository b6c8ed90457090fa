"""An exact request computed again from what stays, and held against what a certificate names.

refit    needs the label holder's folder and its own table: no partner's data
restart  needs all parties' data in one place; it is done on a copy of the run
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unlabel.config import ForgetSettings, RunConfig
from unlabel.data import ACTIVE
from unlabel.errors import UnlabelError
from unlabel.files import sha256
from unlabel.forget import Run
from unlabel.forget.exact import NO_SAMPLES
from unlabel.forget.exact_methods import EXACT_NAMES, ExactWork, Restart
from unlabel.forget.request import Request
from unlabel.party import PassiveParty, own_randomness
from unlabel.party.top import OUTPUTS
from unlabel.report.blinding import blinded
from unlabel.report.certificate_form import Body, Replay
from unlabel.report.checks import Checks
from unlabel.report.verify_run import request_key
from unlabel.train import VersionFacts
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.parts import known_labels
from unlabel.train.replay import (
    ADJUSTABLE,
    TOLERANCE,
    Comparison,
    KeptData,
    differing,
    environment,
    kept_data,
    recipe,
    rows_digest,
    with_threads,
)

NO_REPLAY = (
    "The certificate does not say what the request was computed from (it is of no exact one, or of "
    "a version that was replaced), so it was not computed again."
)
APART = (
    "The request was not computed again: all models were trained anew, which takes all parties' "
    "folders and data in one place."
)
GONE_ON = "The run has gone on to another version, so the request was not computed again."


class CopiedRun(Run, Protocol):
    """A copy of a run with all parties in this process."""

    passives: dict[str, PassiveParty]


def check_replay(
    run: Path, config: RunConfig, copied: Callable[[], CopiedRun], checks: Checks
) -> None:
    """Compute a request again from a run's folder, and name whatever is not as certified.

    config  of the run
    copied  makes a copy of it with all parties
    """
    body = checks.body
    if body is None:
        return
    if body.replay is None:
        checks.unchecked.append(NO_REPLAY)
        return
    try:
        version = _version(run, body, checks)
        if version is None or not _same_inputs(run, config, body.replay, checks):
            return
        key = request_key(body, run, checks)
        if config.bottoms != "tuned":
            _check_refit(kept_data(config, run), body, body.replay, version, key, checks)
        elif config.is_remote() or not all((run / party).is_dir() for party in body.replay.bases):
            checks.unchecked.append(APART)
        else:
            _check_restart(copied(), body, body.replay, key, checks)
    except UnlabelError as error:
        checks.faults.append(f"The request cannot be computed again: {error}")


def _version(
    run: Path, body: Body, checks: Checks
) -> tuple[dict[str, Tensor], VersionFacts] | None:
    """Return tensors and facts of the version that a certificate names."""
    path = run / ACTIVE / "versions" / f"{body.version or 0:06d}.safetensors"
    numbers = [int(p.stem) for p in path.parent.glob("*.json") if p.stem.isdecimal()]
    if not path.exists() and any(number > (body.version or 0) for number in numbers):
        checks.unchecked.append(GONE_ON)
        return None
    try:
        facts = json.loads(path.with_suffix(".json").read_bytes())["facts"]
        return dict(load_file(path)), VersionFacts.from_json(facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        checks.faults.append(
            f"The request cannot be computed again: version {body.version} of the active party is "
            f"missing or cannot be read ({type(error).__name__})."
        )
        return None


def _same_inputs(run: Path, config: RunConfig, replay: Replay, checks: Checks) -> bool:
    """Name settings and files that are not those of the certificate."""
    before = len(checks.faults)
    here = recipe(config)
    for name in sorted(here.keys() | replay.recipe.keys()):
        checks.expect(
            here.get(name) == replay.recipe.get(name),
            f"The recipe of the run is not the certificate's: `{name}` is another.",
        )
    for name, digest in replay.embeddings.items():
        path = run / ACTIVE / LABEL_FREE / Path(name).name
        if not path.exists():
            checks.faults.append(
                f"The kept embeddings '{ACTIVE}/{LABEL_FREE}/{path.name}' are missing, so the "
                f"request cannot be computed again."
            )
            continue
        checks.expect(
            sha256(path.read_bytes()) == digest,
            f"The embeddings '{ACTIVE}/{LABEL_FREE}/{path.name}' are not those that the request "
            f"was computed from: they were changed.",
        )
    return len(checks.faults) == before


def _check_rows(body: Body, replay: Replay, key: str | None, digest: str, checks: Checks) -> bool:
    """Check that rows and labels that stay are those of the certificate."""
    if key is None:
        checks.unchecked.append(
            "Whether rows and labels are those that the request was computed from was not checked: "
            "their digest stands under the key of the request, which is not at hand."
        )
        return True
    return checks.expect(
        blinded(digest, key) == replay.rows,
        f"Rows or labels that stay are not those that request {body.request} was computed from: a "
        f"row, a label or the list of what is forgotten was changed.",
    )


def _check_refit(
    data: KeptData,
    body: Body,
    replay: Replay,
    version: tuple[dict[str, Tensor], VersionFacts],
    key: str | None,
    checks: Checks,
) -> None:
    state, facts = version
    labels, names = known_labels(data.labels, data.names, facts.forgotten.rows)
    if not _check_rows(body, replay, key, rows_digest(data.ids, labels, names, data.rows), checks):
        return
    compared = data.compare(labels, names, state, replay.environment)
    if compared.outcome == "other":
        fault = _another(body, compared, len(state))
        checks.faults.append(f"{fault}{_kept_label(data, facts, state, names)}")
        return
    checks.held.append(_agrees(compared, f"the top of version {body.version}"))


def _another(body: Body, compared: Comparison, tensors: int) -> str:
    where = ""
    if compared.elsewhere:
        where = f" It was computed in another environment ({'; '.join(compared.elsewhere)})."
    return (
        f"Version {body.version} is not what comes out when it is computed again from what stays: "
        f"{len(compared.differing)} of {tensors} tensors differ, and probabilities by up to "
        f"{compared.apart:.2g}.{where}"
    )


def _agrees(compared: Comparison, what: str) -> str:
    if not compared.elsewhere:
        return f"Replayed bit for bit: computed again from what stays, {what} has the same weights."
    where = f"Computed again in another environment ({'; '.join(compared.elsewhere)})"
    if not compared.differing:
        return f"{where}, {what} has the same weights."
    return (
        f"{where}, {what} gives probabilities that differ by at most {compared.apart:.2g} "
        f"({TOLERANCE:g} is allowed); whether the weights are the same can be told in the same "
        f"environment alone."
    )


def _kept_label(
    data: KeptData,
    facts: VersionFacts,
    state: Mapping[str, Tensor],
    names: tuple[str, ...],
) -> str:
    """Return in a sentence where a forged top comes from, where that can be told."""
    try:
        outputs = [str(name) for name in json.loads(bytes(state[f"top/{OUTPUTS}"].tolist()))]
    except (KeyError, ValueError):
        return " It does not name its outputs."
    more = [name for name in outputs if name not in names]
    if more:
        return f" It has outputs for labels that do not stay: {', '.join(more)}."
    asked = facts.request.note if facts.request is not None else {}
    people = set(map(str, asked.get("people", ())))
    rows = [
        row
        for row in facts.forgotten.rows
        if str(data.ids[row]) in people
        or (*data.names, "")[int(data.labels[row])] in asked.get("labels", ())
    ]
    past = sorted(set(facts.forgotten.rows) - set(rows))
    labels, before = known_labels(data.labels, data.names, past)
    if not rows or not bool((labels[rows] >= 0).any()):
        return ""
    with_them = data.fitted(labels, before).versions.model_state()
    if differing(with_them, state):
        return ""
    return " It is the one that comes out with the forgotten labels kept."


def _check_restart(
    copy: CopiedRun, body: Body, replay: Replay, key: str | None, checks: Checks
) -> None:
    """Train all parties of a copy again, from their label-free bottoms."""
    if copy.version != body.version:
        checks.unchecked.append(GONE_ON)
        return
    held, active = copy.holdings, copy.active
    digest = rows_digest(held.ids, held.labels, held.names, held.rows)
    if not _check_rows(body, replay, key, digest, checks):
        return
    every = (held.labels >= 0).nonzero()[:, 0].to(active.device)
    states, before = _states(copy), active.logits(every).softmax(1)
    with with_threads(replay.environment.get(ADJUSTABLE, "")), own_randomness(active.device):
        Restart().run(_work(copy))
        here = environment(active.device)
        apart = float((active.logits(every).softmax(1) - before).abs().max())
    unequal = differing(states, _states(copy))
    recorded = replay.environment
    elsewhere = [
        f"{name} {recorded.get(name) or 'unknown'}, here {value}"
        for name, value in here.items()
        if recorded.get(name) != value
    ]
    compared = Comparison(tuple(unequal), apart, tuple(elsewhere))
    if compared.outcome == "other":
        checks.faults.append(_another(body, compared, len(states)))
    else:
        checks.held.append(_agrees(compared, f"every party's model of version {body.version}"))


def _states(run: CopiedRun) -> dict[str, Tensor]:
    """Return copies of every party's models, by party and name."""
    parts = {ACTIVE: run.active.versions.model_state()}
    parts |= {name: party.bottom.model_state() for name, party in run.passives.items()}
    return {
        f"{party}/{name}": tensor.detach().clone()
        for party, state in parts.items()
        for name, tensor in state.items()
    }


def _work(run: CopiedRun) -> ExactWork:
    """Return the work of training anew on what stays: nothing more goes."""
    held = run.holdings
    return ExactWork(
        active=run.active,
        request=Request(labels=(), rows=(), names=(), ids=()),
        method=Restart(),
        name=EXACT_NAMES["tuned"],
        few_shot=0,
        retained=0,
        settings=ForgetSettings(),
        train=held.rows.train,
        test=held.rows.test,
        names=run.labels,
        earlier=run.forgotten,
        public=NO_SAMPLES,
        training=run.config.train,
        erased=(),
        rows=held.rows,
        config=run.config,
    )

"""What versions 0.6 and 0.7 wrote, in the words of this version.

Only this module knows the old names. Plain data goes in as a file holds it and comes out as this
version would have written it; what cannot be translated is refused with the version that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel.errors import DataError, SettingsError
from unlabel.files import RUN_FILE, sha256

#: The settings of a run in its folder.
OLD_RUN_FILE = "config.yaml"

#: Requests to a passive party, by the names that policies of 0.6 and 0.7 use.
MESSAGE_NAMES = {
    "Weigh": "AccumulateFisher",
    "Track": "AccumulateUpdates",
    "Keep": "RetainVersions",
    "Tune": "BeginRequest",
    "Draft": "SyntheticInputs",
    "Rewrite": "TransformWeights",
}
#: Settings of parties that were allowed to answer late, which 0.8 dropped.
LATE_SETTINGS = ("late", "late_parties", "late_rule")
#: How deep a request went, by its old name.
DEPTHS = {"output": "answers", "deep": "bottoms"}
#: What a request was to the partners: visibility, and the depth it aimed at.
MODES = {"hidden": ("hidden", "top"), "open": ("open", "top"), "deep": ("open", "bottoms")}
#: Limits of audits up to 0.9, with their defaults: figures are judged beside references since.
OLD_LIMITS = {
    "membership": 0.15,
    "rank": 0.05,
    "revival": 0.1,
    "residual": 0.25,
    "relearning": 0.25,
}
#: What depths of audits up to 0.9 mean, where there was a retrained model: in certificates too.
MEANINGS = {
    "top": "The answers look like those of a model that never learnt it, and the scores behind "
    "them no longer single out its samples.",
    "bottoms": "In none of our tests did the answers, the label holder's model or the partners' "
    "models know more of it than a model that never learnt it, within the stated intervals.",
}
CERTIFICATE, ANNEX = "unlabel certificate 1", "unlabel annex 1"
#: What writes certificates of that form.
CERTIFIERS = ("unlabel 0.6", "unlabel 0.7")


def translate_settings(raw: object) -> object:
    """Return the settings of a run, a federation, an agreement or a party in present words."""
    if not isinstance(raw, Mapping):
        return raw
    settings = {"monitor" if name == "watch" else name: value for name, value in raw.items()}
    if "train" in settings:
        settings["train"] = translate_training(settings["train"])
    if "policy" in settings:
        settings["policy"] = translate_policy(settings["policy"])
    if "audit" in settings:
        settings["audit"] = audit_settings(settings["audit"])
    align = settings.get("align")
    if isinstance(align, Mapping) and align.get("method") == "clear":
        settings["align"] = {**align, "method": "plaintext"}
    if isinstance(settings.get("passive"), list):
        settings["passive"] = [translate_settings(party) for party in settings["passive"]]
    return settings


def translate_run(raw: object) -> object:
    """Return a kept run's settings; one that does not say how its rows were matched is from before
    there was a choice.
    """
    if isinstance(raw, Mapping) and "active" in raw:
        return {"align": {"method": "plaintext"}, **raw}
    return raw


def run_file(folder: Path) -> Path:
    """Return the file of a run folder that holds its settings, whether it is there or not."""
    old = folder / OLD_RUN_FILE
    return old if old.is_file() and not (folder / RUN_FILE).is_file() else folder / RUN_FILE


def translate_training(raw: Any) -> Any:
    """Return training settings without those of late parties, of which there must be none.

    >>> translate_training({"lr": 0.1, "late": 0, "late_parties": [], "late_rule": "foresee"})
    {'lr': 0.1}
    """
    if not isinstance(raw, Mapping):
        return raw
    if raw.get("late"):
        raise SettingsError(
            "Parties that answer late (`train.late`) were dropped after version 0.7; use that "
            "version for this run, or set `late` to 0 for a new one."
        )
    return {name: value for name, value in raw.items() if name not in LATE_SETTINGS}


def translate_policy(raw: Any) -> Any:
    """Return a policy with the present names of the requests it serves.

    >>> translate_policy({"serves": ["Embed", "Weigh"]})
    {'serves': ['Embed', 'AccumulateFisher']}
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("serves"), list):
        return raw
    return {**raw, "serves": [MESSAGE_NAMES.get(str(kind), kind) for kind in raw["serves"]]}


def depth_name(name: Any) -> Any:
    """Return a depth by its present name.

    >>> depth_name("output"), depth_name("top")
    ('answers', 'top')
    """
    return DEPTHS.get(name, name) if isinstance(name, str) else name


def depth(noted: Mapping[str, Any]) -> Any:
    """Return the depth in what a ledger notes of an audit."""
    return depth_name(noted["level"]) if "level" in noted else noted.get("depth")


def conduct(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how a request was carried out, as a manifest notes it."""
    if "mode" not in raw:
        return raw
    visibility, aim = MODES.get(raw["mode"], ("open", "top"))
    return {"visibility": visibility, "aim": aim, **_without(raw, "mode")}


def data_digest(ids: Sequence[str], labels: bytes) -> str:
    """Return the fingerprint of people and labels that bound a run to them."""
    return sha256("\n".join(ids).encode() + labels)


def verdict(raw: Any) -> Any:
    """Return what `audit.json` holds."""
    if not isinstance(raw, Mapping) or "level" not in raw:
        return raw
    current = {**_depths(raw), "visibility": MODES.get(str(raw.get("mode")), ("", ""))[0]}
    if raw.get("format") == 1:
        current["format"] = 2
    if isinstance(raw.get("findings"), list):
        current["findings"] = [_depths(each) for each in raw["findings"]]
    if isinstance(raw.get("measures"), Mapping):
        current["measures"] = {name: _depths(each) for name, each in raw["measures"].items()}
    if isinstance(raw.get("thresholds"), Mapping):
        current["thresholds"] = thresholds(raw["thresholds"])
    if isinstance(raw.get("privacy"), Mapping):
        privacy = _without(raw["privacy"], "mode")
        current["privacy"] = {**privacy, "visibility": current["visibility"]}
    return _without(current, "mode")


def audit_settings(raw: Any) -> Any:
    """Return what an audit demands; limits of earlier versions must be as they were by default.

    >>> audit_settings({"demand": "deep", "rank": 0.05})
    {'demand': 'bottoms'}
    """
    if not isinstance(raw, Mapping):
        return raw
    changed = [name for name, usual in OLD_LIMITS.items() if raw.get(name, usual) != usual]
    if changed:
        raise SettingsError(
            f"`audit.{changed[0]}` was dropped after version 0.9: figures are judged beside models "
            f"without the label, in units of how these differ (`audit.spreads`); leave it out."
        )
    return thresholds(raw)


def thresholds(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that a verdict was judged by, without those that there are no more."""
    kept = {name: value for name, value in raw.items() if name not in OLD_LIMITS}
    return {**kept, "demand": depth_name(kept["demand"])} if "demand" in kept else kept


def certificate(raw: Any) -> Any:
    """Return a certificate; its signatures are those of the bytes as they were.

    Fields that the old form does not have are refused, so that none can pass for a present one.
    """
    body = raw.get("certificate") if isinstance(raw, Mapping) else None
    if not isinstance(body, Mapping) or body.get("what") != CERTIFICATE:
        return raw
    mode, stated = body.get("mode"), body.get("depth")
    if mode not in (*MODES, "secret") or not isinstance(stated, Mapping):
        return raw
    since = [*("visibility", "secret", "guarantee", "words"), *("version", "demand", "figures")]
    since += ["bases", "replay"]
    foreign = [name for name in since if name in body]
    foreign += [f"depth.{name}" for name in stated if name not in ("level", "words")]
    reached = stated.get("level")
    if reached in DEPTHS.values():
        foreign.append(f"depth.level: {reached}")
    if foreign:
        raise DataError(f"A certificate of version 0.6 or 0.7 never has `{foreign[0]}`.")
    current = {
        **_without(body, "mode"),
        "what": "unlabel certificate 2",
        **dict.fromkeys(("version", "demand", "figures")),
        "visibility": MODES.get(str(mode), ("open", ""))[0],
        "secret": mode in ("hidden", "secret"),
        "depth": depth_name(reached),
        "guarantee": None if reached is None else "measured",
        **_without(stated, "level"),
    }
    return {**raw, "certificate": current}


def annex(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a sealed annex holds."""
    if raw.get("what") != ANNEX:
        return dict(raw)
    return {**_depths(raw), "what": "unlabel annex 2", "audit": verdict(raw.get("audit"))}


def _depths(raw: Any) -> Any:
    """Return plain data whose depth has its present name."""
    if not isinstance(raw, Mapping):
        return raw
    current = _without(raw, "level")
    if "level" in raw:
        current["depth"] = depth_name(raw["level"])
    if "demanded" in raw:
        current["demanded"] = depth_name(raw["demanded"])
    return current


def _without(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != name}

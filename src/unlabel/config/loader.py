"""Settings as YAML, and plain data as dataclasses: the one module that knows pydantic.

Files are checked so that every mistake is named at once, each with what would be accepted.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml
from pydantic import AfterValidator, TypeAdapter, ValidationError

from unlabel import compat
from unlabel.config.audit import AuditSettings
from unlabel.config.data import Columns, Pictures
from unlabel.config.federation import Agreement, FederationFile, PartyFile
from unlabel.config.label_free import FitSettings, LabelFreeSettings
from unlabel.config.model import TextSettings
from unlabel.config.party import AlignSettings, DefendSettings, MonitorSettings, Policy
from unlabel.config.plain_yaml import MOST_BYTES, plain_yaml
from unlabel.config.run import RunConfig
from unlabel.config.train import OWN_SETTINGS
from unlabel.errors import DataError, RunError, SettingsError, suggestion, unknown
from unlabel.files import RUN_FILE, sha256
from unlabel.signing import canonical
from unlabel.text_encoding import decode

Settings = TypeVar("Settings")

_BLIND: dict[str, Callable[[], object]] = {
    "bottoms": lambda: "supervised",
    "label_free": LabelFreeSettings,
    "fit": FitSettings,
}
#: What is left out of a file where it is as by default, so that the defaults of the version that
#: reads the file hold. How to train and which models is always written.
_LEFT_OUT: dict[type, dict[str, Callable[[], object]]] = {
    RunConfig: {
        "policy": Policy,
        "align": AlignSettings,  # a run of tables names its method and so always has it
        "columns": Columns,
        "pictures": Pictures,
        "defend": DefendSettings,
        "audit": AuditSettings,
        "trust": dict,
        **_BLIND,
    },
    Agreement: {"trust": dict, "authority": str, **_BLIND},
    PartyFile: {"policy": Policy, "monitor": MonitorSettings, "audit": AuditSettings},
}
#: Settings that stand in one of the two files alone, which is how the two are distinguished.
_FEDERATION_ONLY = {"name", "server", "timeout", "predict", "days"}
_RUN_ONLY = {"data", "folder", "columns", "pictures", "parties", "split", "active_part"}

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "path": "a path",
    "list": "a list",
    "dict": "a mapping",
    "tuple": "a list",
    "sequence": "a list",
    "dataclass": "a mapping",
}


def read_run(path: Path) -> RunConfig:
    """Read a run.yaml; table paths in it are relative to the file itself."""
    return parse_run(read_yaml(path), str(path)).under(path.resolve().parent)


def parse_run(raw: object, source: str) -> RunConfig:
    """Check plain data against `RunConfig`."""
    if isinstance(raw, dict) and _is_federation(raw):
        raise SettingsError(
            f"{source} describes a federation between organisations: make its kits with `unlabel "
            f"federation init {source} --out KITS`. A run in one place is a run.yaml, with `data` "
            f"or with the `table` of every party."
        )
    return parse(RunConfig, raw, source)


def read_run_folder(folder: Path) -> RunConfig:
    """Read the settings that a run folder keeps."""
    path = compat.run_file(folder)
    if not path.is_file():
        raise RunError(f"'{folder}' is not a run folder: it has no {RUN_FILE}.")
    raw = compat.translate_run(read_yaml(path))
    return parse(RunConfig, raw, str(path)).under(path.resolve().parent)


def read_federation(path: Path) -> FederationFile:
    """Read what a person wrote to set a federation up."""
    raw = read_yaml(path)
    if isinstance(raw, dict) and not _is_federation(raw) and _is_run(raw):
        raise SettingsError(
            f"{path} describes a run in one place: train it with `unlabel train {path}`. A "
            f"federation is a federation.yaml, with `active` and `passive` but without tables."
        )
    return parse(FederationFile, raw, str(path))


def read_party(path: Path) -> PartyFile:
    """Read a party's own file."""
    return parse(PartyFile, read_yaml(path), str(path))


def read_agreement(path: Path) -> tuple[Agreement, str]:
    """Read an agreement; return it with its digest.

    The digest is that of what stands in the file, not of what this version makes of it: settings
    that a later version adds do not break an agreement made before.
    """
    raw = read_yaml(path)
    return parse(Agreement, raw, str(path)), digest_of(raw)


def agreement_digest(agreement: Agreement) -> str:
    """Return the digest of an agreement as it is written."""
    return digest_of(plain_yaml(dump(agreement), "the agreement"))


def digest_of(raw: object) -> str:
    """Return the SHA-256 of plain data as canonical JSON.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    try:
        return sha256(canonical(raw))
    except (TypeError, ValueError) as error:
        raise SettingsError("An agreement holds text, numbers, lists and mappings only.") from error


def parse(kind: type[Settings], raw: object, source: str) -> Settings:
    """Check plain data against a dataclass of settings; all mistakes are named at once."""
    if not isinstance(raw, dict):
        raise SettingsError(f"{source}: expected a mapping of settings but got {_short(raw)}.")
    root: Any = kind
    settings: Settings | None = None
    try:
        raw = compat.translate_settings(raw)
        mistakes = [_unknown_setting(*place) for place in _unknown_names(raw, root)]
        settings = _adapter(root).validate_python(raw)
    except ValidationError as error:
        mistakes += _explain(error, root)
    except SettingsError as error:
        mistakes = [str(error)]
    if settings is None or mistakes:
        raise SettingsError(f"{source}: {' '.join(mistakes)}")
    return settings


def parse_form(kind: type[Settings], raw: object) -> Settings:
    """Read plain data of JSON into dataclasses: every field as it is declared, and no other."""
    root: Any = kind
    for path, name, _ in _unknown_names(raw, root):
        raise DataError(f"`{'.'.join((*path, name))}` does not belong there.")
    try:
        form: Settings = _adapter(root).validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        how = "is missing" if first["type"] == "missing" else "cannot be read"
        raise DataError(f"`{where}` {how}.") from error
    return form


def checked_by(check: Callable[[str], str]) -> object:
    """Return what `Annotated` takes for a type whose values a function checks."""
    return AfterValidator(check)


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    # Made once a kind: it takes longer than reading a file with it.
    return TypeAdapter(kind)


def dump(settings: RunConfig | Agreement | PartyFile) -> str:
    """Return settings as YAML that reads back as the same."""
    plain = plain_settings(settings)
    for name, default in _LEFT_OUT.get(type(settings), {}).items():
        if getattr(settings, name) == default():
            del plain[name]
    if isinstance(settings, RunConfig) and settings.model.text == TextSettings():
        del plain["model"]["text"]
    if not isinstance(settings, PartyFile) and not settings.model.options:
        del plain["model"]["options"]
    if isinstance(settings, Agreement):
        plain["train"] = {k: v for k, v in plain["train"].items() if k not in OWN_SETTINGS}
    return dump_yaml(plain)


def dump_yaml(plain: object) -> str:
    """Return plain data as YAML, in the order in which it stands."""
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return a dataclass of settings as YAML and JSON hold it, without what is not set."""
    plain: dict[str, Any] = _plain(asdict(settings))
    return plain


def read_yaml(path: Path) -> object:
    """Read a YAML file as plain data."""
    source = f"'{path}'"
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)  # of a longer one no more than shows that it is
        return plain_yaml(decode(data, source), source)
    except DataError as error:
        raise SettingsError(str(error)) from error
    except OSError as error:
        raise SettingsError(f"Cannot read '{path}': {error.strerror}.") from error


def _is_federation(raw: dict[Any, Any]) -> bool:
    """Return whether plain data is that of a federation.yaml: parties without tables."""
    if _RUN_ONLY & raw.keys():
        return False
    return bool(_FEDERATION_ONLY & raw.keys()) or ("active" in raw and not _has_tables(raw))


def _is_run(raw: dict[Any, Any]) -> bool:
    return bool(_RUN_ONLY & raw.keys()) or _has_tables(raw)


def _has_tables(raw: dict[Any, Any]) -> bool:
    passive = raw.get("passive")
    parties = [raw.get("active"), *(passive if isinstance(passive, list) else [])]
    return any(isinstance(party, dict) and "table" in party for party in parties)


def _unknown_names(
    raw: object, hint: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, Iterable[str]]]:
    """Yield every name in plain data that the declared type lacks: where, the name, those known."""
    kind = _settings_class(hint)
    if kind is None:
        return
    if isinstance(raw, list):
        for number, item in enumerate(raw):
            yield from _unknown_names(item, kind, (*path, str(number)))
    elif isinstance(raw, dict):
        by_name = get_origin(hint) is dict
        known = dict.fromkeys(raw, kind) if by_name else get_type_hints(kind)
        for name, value in raw.items():
            if name in known:
                yield from _unknown_names(value, known[name], (*path, str(name)))
            else:
                yield path, str(name), known


def _unknown_setting(path: tuple[str, ...], name: str, known: Iterable[str]) -> str:
    return unknown(f"setting under `{'.'.join(path)}`" if path else "setting", name, known)


def _explain(error: ValidationError, root: Any) -> list[str]:
    """Turn pydantic's findings into sentences: the setting, what it got, what it accepts."""
    sentences: list[str] = []
    # Each member of a union has a finding of its own about the same setting.
    accepted: dict[str, tuple[object, Any, list[str]]] = {}
    for item in error.errors():
        (name, hint), kind = _setting_at(item["loc"], root), item["type"]
        if kind == "value_error":
            sentences.append(str(item["ctx"]["error"]))
        elif kind == "missing":
            sentences.append(f"`{name}` is missing.")
        else:
            accepted.setdefault(name, (item["input"], hint, []))[2].append(_accepts(item))
    for name, (got, hint, kinds) in accepted.items():
        values = " or ".join(dict.fromkeys(kinds))
        near = suggestion(got, _literals(hint))
        sentences.append(f"`{name}` got {_short(got)} but accepts {values}.{near}")
    return sentences


def _accepts(item: Any) -> str:
    if item["type"] == "literal_error":
        return str(item["ctx"]["expected"])
    if item["type"] == "is_instance_of":
        return _EXPECTED.get(str(item["ctx"]["class"]).lower(), str(item["msg"]))
    kind = item["type"].removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    return _EXPECTED.get(kind.split("_")[0], str(item["msg"]))


def _setting_at(location: tuple[int | str, ...], root: Any) -> tuple[str, Any]:
    """Return the name and declared type of a setting, without pydantic's names for union members.

    >>> _setting_at(("train", "epochs", "int"), RunConfig)[0]
    'train.epochs'
    """
    path, hint = [], root
    for part in location:
        kind = _settings_class(hint)
        if isinstance(part, int):
            path.append(str(part))
        elif kind is not None:
            path.append(part)
            hint = get_type_hints(kind).get(part)
    return ".".join(path), hint


def _settings_class(hint: Any) -> Any:
    """Return the class of settings in a declared type, like that in `list[..]` or `.. | None`."""
    if is_dataclass(hint):
        return hint
    return next((kind for arg in get_args(hint) if (kind := _settings_class(arg))), None)


def _literals(hint: Any) -> list[str]:
    values: list[str] = []
    for arg in get_args(hint):
        values += [arg] if isinstance(arg, str) else _literals(arg)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

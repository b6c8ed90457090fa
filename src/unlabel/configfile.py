"""The one YAML file of a run, checked so that a mistake is named and the remedy with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

from unlabel.align import AlignSettings
from unlabel.data import Columns, Pictures
from unlabel.data.decoding import decode
from unlabel.defend import DefendSettings
from unlabel.errors import DataError, RunError, SettingsError, suggestion, unknown
from unlabel.models import TextSettings
from unlabel.party import Policy
from unlabel.train import AuditSettings, RunConfig

Settings = TypeVar("Settings")

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


def read_config(path: Path) -> RunConfig:
    """Read a configuration file; table paths in it are relative to the file itself."""
    return parse_config(read_yaml(path), str(path)).under(path.resolve().parent)


def read_run_config(folder: Path) -> RunConfig:
    """Read the configuration that a run folder keeps."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise RunError(f"'{folder}' is not a run folder: it has no config.yaml.")
    raw = read_yaml(path)
    if isinstance(raw, dict) and "active" in raw:
        # A run that does not say how its rows were matched is from before there was a choice.
        raw = {"align": {"method": "clear"}, **raw}
    return parse_config(raw, str(path)).under(path.resolve().parent)


def parse_config(raw: object, source: str) -> RunConfig:
    """Check plain data against `RunConfig`; all mistakes are told at once, one sentence each."""
    return parse_settings(RunConfig, raw, source)


def parse_settings(kind: type[Settings], raw: object, source: str) -> Settings:
    """Check plain data against a dataclass of settings, and tell all mistakes at once."""
    if not isinstance(raw, dict):
        raise SettingsError(f"{source}: expected a mapping of settings but got {_short(raw)}.")
    root: Any = kind
    try:
        found: Settings = _adapter(root)(raw)
    except ValidationError as error:
        raise SettingsError(f"{source}: {' '.join(_explain(error, root))}") from error
    return found


@functools.cache
def _adapter(kind: Any) -> Callable[[object], Any]:
    # Made once a kind: it takes longer than reading a file with it.
    return TypeAdapter(kind).validate_python


def dump_config(config: RunConfig) -> str:
    """Return the configuration as YAML that `read_config` reads back."""
    plain = plain_settings(config)
    if config.policy == Policy():
        # The defaults of the version that opens the run hold, not those of the one that made it.
        del plain["policy"]
    if config.data is not None and config.align == AlignSettings():
        del plain["align"]  # a run of tables says how its rows were matched, defaults or not
    if config.columns == Columns():
        del plain["columns"]
    if config.pictures == Pictures():
        del plain["pictures"]
    if config.model.text == TextSettings():
        del plain["model"]["text"]
    if config.defend == DefendSettings():
        del plain["defend"]
    if config.audit == AuditSettings():
        del plain["audit"]
    if not config.trust:
        del plain["trust"]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return a dataclass of settings as YAML and JSON hold it, without what is not set."""
    plain: dict[str, Any] = _plain(asdict(settings))
    return plain


def read_yaml(path: Path) -> object:
    """Read a YAML file as plain data."""
    try:
        return yaml.safe_load(decode(path.read_bytes(), f"'{path}'"))
    except DataError as error:
        raise SettingsError(str(error)) from error
    except OSError as error:
        raise SettingsError(f"Cannot read '{path}': {error.strerror}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" near line {where.line + 1}" if where else ""
        raise SettingsError(f"'{path}' is not readable YAML{line}.") from error


def _explain(error: ValidationError, root: type) -> list[str]:
    """Turn pydantic's findings into sentences: the field, what it got, what it accepts."""
    found: dict[tuple[str, ...], list[str]] = {}
    inputs: dict[tuple[str, ...], object] = {}
    sentences: list[str] = []
    for item in error.errors():
        path, kind = _field_path(item["loc"], root), item["type"]
        if kind == "value_error":
            sentences.append(str(item["ctx"]["error"]))
        elif kind in ("unexpected_keyword_argument", "extra_forbidden"):
            what = f"setting under `{'.'.join(path[:-1])}`" if path[:-1] else "setting"
            sentences.append(unknown(what, path[-1], _settings_under(path[:-1], root)))
        elif kind in ("missing", "missing_argument"):
            sentences.append(f"`{'.'.join(path)}` is missing.")
        else:
            accepted = _accepts(item)
            found.setdefault(path, []).append(accepted)
            inputs.setdefault(path, item["input"])
    for path, accepted_kinds in found.items():
        accepted = " or ".join(dict.fromkeys(accepted_kinds))
        near = _nearest(inputs[path], path, root)
        sentences.append(
            f"`{'.'.join(path)}` got {_short(inputs[path])} but accepts {accepted}.{near}"
        )
    return sentences


def _accepts(item: Any) -> str:
    if item["type"] == "literal_error":
        return str(item["ctx"]["expected"])
    if item["type"] == "is_instance_of":
        return _EXPECTED.get(str(item["ctx"]["class"]).lower(), str(item["msg"]))
    kind = item["type"].removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    return _EXPECTED.get(kind.split("_")[0], str(item["msg"]))


def _nearest(got: object, path: tuple[str, ...], root: type) -> str:
    hint = _type_of(path, root)
    return suggestion(got, [str(value) for value in _literals(hint)])


def _field_path(location: tuple[int | str, ...], root: type) -> tuple[str, ...]:
    """Return the settings a location passes through, without pydantic's names for union members."""
    path: list[str] = []
    for part in location:
        if isinstance(part, int) or (_type_of((*path, part), root) is not None or not path):
            path.append(str(part))
        elif _is_settings(_type_of(tuple(path), root)):
            path.append(part)
    return tuple(path)


def _settings_under(path: tuple[str, ...], root: type) -> list[str]:
    holder = _settings_class(_type_of(path, root)) if path else root
    return [field.name for field in fields(holder)] if holder is not None else []


def _type_of(path: tuple[str | int, ...], root: type) -> Any:
    """Return the declared type of the setting at a path, None if there is no such setting."""
    current: Any = root
    for part in path:
        if isinstance(part, int) or str(part).isdecimal():
            continue
        holder = _settings_class(current)
        if holder is None:
            return None
        current = get_type_hints(holder).get(str(part))
        if current is None:
            return None
    return current


def _settings_class(hint: Any) -> Any:
    if is_dataclass(hint):
        return hint
    return next((found for arg in get_args(hint) if (found := _settings_class(arg))), None)


def _is_settings(hint: Any) -> bool:
    return _settings_class(hint) is not None


def _literals(hint: Any) -> list[object]:
    values: list[object] = []
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

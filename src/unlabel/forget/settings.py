"""From the settings of a request to its method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unlabel.config.forget import FEW_SHOT, RETAINED, ForgetSettings
from unlabel.errors import ForgetError, SettingsError, unknown
from unlabel.forget.method import METHODS, Method, Preset, build, expect_visibility, settings_of
from unlabel.terms import DEPTHS, Depth, Visibility
from unlabel.words import parse_settings

DEFAULT_METHOD = "hidden"
#: The method of a request that names none, by visibility and depth; None where neither is given.
REQUEST_METHODS: Mapping[tuple[Visibility | None, Depth | None], str] = {
    (None, None): DEFAULT_METHOD,
    ("hidden", None): "hidden",
    (None, "top"): "hidden",
    ("hidden", "top"): "hidden",
    ("open", None): "renormalise",
    ("open", "top"): "renormalise",
    (None, "bottoms"): "deep",
    ("open", "bottoms"): "deep",
}
#: The method of people whose labels the bottoms were trained with.
FOR_PEOPLE = "retrain"
NOT_HIDDEN = (
    "The labels of people cannot be forgotten hidden in a supervised run, where a change of the "
    "top alone leaves them as easy to find (an attack has AUC 0.955 before, 0.924 after, and 0.461 "
    "on a retrained model); leave --visibility out to train again, or let it wait for the next "
    "training (--defer DAY)."
)
NO_METHOD = {
    "answers": "Hiding an answer forgets nothing; choose depth top or bottoms.",
    "bottoms": "Bottoms that were trained with labels cannot forget without the partners seeing "
    "it; choose visibility open, or depth top.",
}


def choose_method(settings: ForgetSettings, *, people: bool) -> tuple[str, Preset]:
    """Return the method's name, the method, and how many samples go with it.

    people  whether the request is about people's labels

    A method of another visibility, or that aims less deep, than what is asked for is refused.
    """
    chosen = settings.method
    if people and settings.visibility == "hidden":
        raise ForgetError(NOT_HIDDEN, code="not-secret")
    if chosen is None:
        request = (settings.visibility, settings.depth)
        if not people and request not in REQUEST_METHODS:
            raise ForgetError(NO_METHOD[str(settings.depth)])
        chosen = FOR_PEOPLE if people else REQUEST_METHODS[request]
    if isinstance(chosen, str):
        name, method = chosen, build(chosen)
    elif isinstance(chosen, Method):
        known = {METHODS.get(name): name for name in METHODS.names()}
        name, method = known.get(type(chosen), type(chosen).__name__), chosen
    else:
        raise SettingsError(f"Expected a method or its name but got {type(chosen).__name__}.")
    if people and not method.people:
        raise ForgetError(
            f"Method '{name}' forgets whole labels; those of people are forgotten by training "
            f"again (`{FOR_PEOPLE}`): leave --method out."
        )
    preset = Preset(method, FEW_SHOT, RETAINED)
    if settings.preset is not None:
        presets = method.presets()
        if not presets:
            raise SettingsError(f"Method '{name}' has no presets; leave --preset out.")
        if settings.preset not in presets:
            raise SettingsError(unknown(f"preset of '{name}'", settings.preset, presets))
        preset = presets[settings.preset]
    method, own_settings = preset.method, settings_of(preset.method)
    for option in settings.options:
        if option not in own_settings:
            raise SettingsError(unknown(f"setting of '{name}'", option, own_settings))
    if settings.options:
        method = replace(method, **settings.options)  # type: ignore[type-var]
    _expect_fit(settings, method, name)
    return name, replace(
        preset,
        method=method,
        few_shot=preset.few_shot if settings.few_shot is None else settings.few_shot,
        retained=preset.retained if settings.retained is None else settings.retained,
    )


def with_options(settings: ForgetSettings, words: Sequence[str], *, people: bool) -> ForgetSettings:
    """Return the same settings with some of the method itself, each as NAME=VALUE."""
    name, chosen = choose_method(settings, people=people)
    return replace(
        settings,
        method=parse_settings(METHODS.get(name), words, chosen.method),
        options={},
        preset=None,
        few_shot=chosen.few_shot,
        retained=chosen.retained,
    )


def expect_remote(settings: ForgetSettings) -> None:
    """Raise where settings need the data of other parties in one place."""
    if settings.public is not None:
        raise SettingsError(
            "Files of public samples would have to lie with every party; leave `public` out: in a "
            "federation the rows set aside before training are taken."
        )


def _expect_fit(settings: ForgetSettings, method: Method, name: str) -> None:
    """Raise where a method shows partners more, or aims less deep, than it says or was asked."""
    expect_visibility(method, name)
    visibility, depth = settings.visibility, settings.depth
    if visibility not in (None, method.visibility):
        tells = f": it tells the partners {method.tells_partners}" if visibility == "hidden" else ""
        raise ForgetError(
            f"Method '{name}' is {method.visibility} and cannot be {visibility}{tells}; "
            f"leave --visibility{' or --method' if settings.method is not None else ''} out."
        )
    if depth is not None and DEPTHS.index(method.aim) < DEPTHS.index(depth):
        raise ForgetError(
            f"Method '{name}' aims at depth '{method.aim}' and not at '{depth}'; leave "
            f"--depth or --method out."
        )

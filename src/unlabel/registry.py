"""One way to look things up by name: a new thing is one new file in its folder.

A folder keeps a `Registry`. Its files register what they define with a decorator, and are imported
the first time somebody asks, so that nothing has to be listed by hand. Another distribution adds
things of its own by an entry point that names a package, for example

    [project.entry-points."unlabel.methods"]
    mine = "my_package.methods"
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from unlabel.errors import SettingsError, UnlabelError, unknown, why

T = TypeVar("T")


class Registry(Generic[T]):
    """Names and the things they stand for, found in the files of some packages.

    package  whose files are imported, or several
    plugins  group of entry points that name further packages

    >>> colours: Registry[str] = Registry("colour", package="unlabel.wire")
    >>> colours.add("red", "#f00")
    '#f00'
    >>> colours.get("rad")
    Traceback (most recent call last):
    ...
    unlabel.errors.SettingsError: Unknown colour 'rad'. Did you mean 'red'? Known: red.
    """

    def __init__(
        self, what: str, *, package: str | Sequence[str], plugins: str | None = None
    ) -> None:
        self.what = what
        self._packages = [package] if isinstance(package, str) else list(package)
        self._plugins = plugins
        self._things: dict[str, T] = {}
        self._complete = False

    def add(self, name: str, thing: T) -> T:
        """Register `thing`; a second thing of the same name is refused."""
        if name in self._things:
            raise SettingsError(f"Two {self.what}s are called '{name}'; rename one of them.")
        self._things[name] = thing
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """Register what follows under `name` (a decorator)."""
        return lambda thing: self.add(name, thing)

    def search(self, package: str) -> None:
        """Look into one more package, as an entry point of an installed distribution would say."""
        if package not in self._packages:
            self._packages.append(package)
            self._complete = False

    def get(self, name: str) -> T:
        """Return the thing called `name`, or say which names there are."""
        things = self._all()
        if name not in things:
            raise SettingsError(unknown(self.what, name, things))
        return things[name]

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def _all(self) -> dict[str, T]:
        if not self._complete:
            added = entry_points(group=self._plugins) if self._plugins else ()
            for name in dict.fromkeys([*self._packages, *(each.value for each in added)]):
                package = importlib.import_module(name)
                for module in pkgutil.iter_modules(package.__path__):
                    if not module.name.startswith(("__", "test_", "conftest")):
                        _import_file(f"{name}.{module.name}")
            self._complete = True
        return self._things


def _import_file(module: str) -> None:
    """Import a file, or say in one sentence which one is broken and where."""
    try:
        importlib.import_module(module)
    except UnlabelError:
        raise
    except Exception as error:
        spec = importlib.util.find_spec(module)
        path = spec.origin if spec is not None and spec.origin else module
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}" for frame in frames if frame.filename == path]
        raise SettingsError(
            f"{path}{lines[-1] if lines else ''} cannot be imported ({why(error)}); mend or remove "
            f"it: nothing of its kind can be looked up until then."
        ) from error

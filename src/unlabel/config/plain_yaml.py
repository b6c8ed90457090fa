"""YAML as plain data, within bounds: a short file cannot become a long one in memory.

Aliases are read, but counted as often as they are used: nine names, each of nine of the one before,
are 3.5 billion nodes in half a kilobyte. Reading comes before any check of settings, so that the
bounds hold for files that a stranger wrote.
"""

from __future__ import annotations

from typing import Any

import yaml

from unlabel.errors import SettingsError

#: Brackets within brackets: each is looked at anew for every one that follows.
DEEPEST = 50
#: Bytes of a file, characters of one text or number in it, and values once aliases are written out.
MOST_BYTES, MOST_CHARACTERS, MOST_VALUES = 2**19, 10_000, 200_000


class _Loader(yaml.SafeLoader):
    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 (PyYAML's name)
        if self.flow_level >= DEEPEST:
            raise yaml.MarkedYAMLError(problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)


def plain_yaml(text: str, source: str) -> object:
    """Return the plain data of a YAML text, or raise `SettingsError`.

    source  what the text is called in errors
    """
    if len(text) > MOST_BYTES:
        raise SettingsError(
            f"{source} has more than {MOST_BYTES:,} characters, which settings never need."
        )
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _written_out(root, {}, source) > MOST_VALUES:
            raise SettingsError(
                f"{source} holds more than {MOST_VALUES:,} values once its aliases are written "
                f"out; write what it needs without aliases (`&name`, `*name`)."
            )
        return loader.construct_document(root)
    except SettingsError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" near line {where.line + 1}" if where else ""
        raise SettingsError(f"{source} is not readable YAML{line}.") from error
    finally:
        loader.dispose()


def _written_out(node: yaml.Node, known: dict[int, int], source: str) -> int:
    """Return how many values a node holds, each alias counted with all that it stands for.

    known  the counts of nodes so far; -1 marks one that is being counted, and so holds itself
    """
    if isinstance(node, yaml.ScalarNode):
        if len(node.value) > MOST_CHARACTERS:
            raise SettingsError(
                f"{source} holds a text of more than {MOST_CHARACTERS:,} characters near line "
                f"{node.start_mark.line + 1}, which no setting needs."
            )
        return 1
    count = known.get(id(node))
    if count == -1:
        raise SettingsError(f"{source} holds an alias that stands for itself; write it out.")
    if count is None:
        known[id(node)] = -1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [each for pair in node.value for each in pair]
        count = 1 + sum(_written_out(part, known, source) for part in parts)
        known[id(node)] = count
    return count

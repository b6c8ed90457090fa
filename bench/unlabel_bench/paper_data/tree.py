"""The files of a repository: a checkout, any folder, or a git directory without a work tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from unlabel.errors import DataError, why

#: Nothing is asked of another machine: what a partial clone lacks counts as absent.
OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True)
class Tree:
    """Files by their path inside the repository.

    root  the folder, or the git directory whose last commit is read
    git   whether it is a git directory
    """

    root: Path
    git: bool

    @classmethod
    def at(cls, root: Path) -> Tree:
        """Return the files of a folder or git directory."""
        if not root.is_dir():
            raise DataError(f"Folder '{root}' does not exist: check the path.")
        return cls(root, (root / "HEAD").is_file() and (root / "objects").is_dir())

    def commit(self) -> str:
        """Return the commit that is read, empty where it is a folder."""
        return self._git("rev-parse", "HEAD").decode().strip() if self.git else ""

    def names(self, inside: str, ending: str) -> list[str]:
        """Return the paths under a folder that end so, sorted; at least one must be there."""
        if self.git:
            listed = self._git("ls-tree", "-r", "-z", "--name-only", "HEAD", "--", f"{inside}/")
            paths = listed.decode("utf-8", errors="surrogateescape").split("\0")
        else:
            files = (path for path in (self.root / inside).rglob("*") if path.is_file())
            paths = [path.relative_to(self.root).as_posix() for path in files]
        names = sorted(path for path in paths if path.endswith(ending))
        if not names:
            raise DataError(
                f"'{self.root}' has no {ending} files in '{inside}': check that it is the "
                f"repository docs/paper-data.md names."
            )
        return names

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield each path with its bytes, None where it is listed but its content is absent."""
        if not self.git:
            yield from ((name, (self.root / name).read_bytes()) for name in names)
            return
        command = [*self._command(), "cat-file", "--batch"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | OFFLINE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for name in names:
                process.stdin.write(f"HEAD:{name}\n".encode(errors="surrogateescape"))
                process.stdin.flush()
                answer = process.stdout.readline().rstrip(b"\n")
                if answer.endswith(b" missing"):
                    yield name, None
                    continue
                try:
                    size = int(answer.rpartition(b" ")[2])
                except ValueError as error:
                    raise DataError(f"git cannot read '{name}' in '{self.root}'.") from error
                data = process.stdout.read(size)
                process.stdout.read(1)  # a new line ends each answer
                yield name, data
            process.stdin.close()

    def read_whole(self, name: str) -> bytes:
        """Return the bytes of one file that must be there."""
        ((_, data),) = self.read(self.names(name.rpartition("/")[0], name.rpartition("/")[2]))
        if data is None:
            raise DataError(f"The content of '{name}' is absent from '{self.root}': get it whole.")
        return data

    def _command(self) -> list[str]:
        return ["git", f"--git-dir={self.root}"]

    def _git(self, *words: str) -> bytes:
        try:
            return subprocess.run(
                [*self._command(), *words],
                check=True,
                capture_output=True,
                env=os.environ | OFFLINE,
            ).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise DataError(f"git cannot read '{self.root}' ({why(error)}).") from error

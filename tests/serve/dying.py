"""A program that decides on a staged request, and dies at every moment of that; what is answered?

    python dying.py RUN VERB OUT.json

The server has the version from before in its memory whenever the other process dies.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

import torch  # noqa: E402
from forget.crashing import Fate, bind, in_child, run_verb  # noqa: E402

from serve.served import LABEL, MANY  # noqa: E402
from unlabel import Federation  # noqa: E402
from unlabel.errors import UnlabelError  # noqa: E402
from unlabel.forget import Transaction  # noqa: E402
from unlabel.party.answering import decided_in  # noqa: E402
from unlabel.serve import ServedModel  # noqa: E402


def answer_of(model: ServedModel) -> dict[str, Any]:
    """Return what is answered, or with which code it is not."""
    try:
        answer = model.by_ids(MANY)
    except UnlabelError as error:
        return {"code": error.code}
    answer.hold.release()
    found = json.loads(answer.body)
    del found["ledger"]  # it goes on with each line
    return dict(found)


def is_settled(run: Federation) -> bool:
    """Return whether every party has confirmed what is decided."""
    try:
        Transaction(run.active).expect_together()
    except UnlabelError:
        return False
    return True


def main(template: Path, verb: str, out: Path) -> None:
    run = template.with_name("dying")

    def begin() -> None:
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(template, run)

    begin()
    model, other = ServedModel(Federation.open(run)), Federation.open(run)
    before = answer_of(model)
    told = out.with_suffix(".moments")

    def undisturbed() -> None:
        fate = Fate(run)
        bind(fate)
        run_verb(other, verb, LABEL)
        told.write_text(json.dumps(fate.moments))

    assert in_child(undisturbed) == 0
    after = answer_of(model)
    states = [state for _, state in json.loads(told.read_text())]
    deaths = []
    for state in range(states[-1] + 1):
        begin()
        model, other = ServedModel(Federation.open(run)), Federation.open(run)
        assert answer_of(model) == before

        def disturbed(last: int = states.index(state), run_of: Federation = other) -> None:
            bind(Fate(run, last))
            run_verb(run_of, verb, LABEL)

        assert in_child(disturbed) == -signal.SIGKILL
        decided = decided_in(run / "active")
        assert decided is not None
        third = Federation.open(run, recovering=True)
        death: dict[str, Any] = {"decided": decided.number, "settled": is_settled(third)}
        death["answer"] = answer_of(model)
        third.recover()
        death["recovered"] = answer_of(model)
        deaths.append(death)
    out.write_text(json.dumps({"before": before, "after": after, "moments": deaths}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    os._exit(0)

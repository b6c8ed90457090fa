"""What binds a run to its rows and labels is HMAC-SHA-256, as the standard library has it."""

from __future__ import annotations

import hmac

import numpy as np
import torch

from unlabel.align.normal import normalise
from unlabel.config import AlignSettings
from unlabel.data import Rows
from unlabel.train.label_record import LabelRecord


def test_people_and_commitments_are_the_codes_of_the_standard_library() -> None:
    ids = np.array([" Ann ", "bo", "\u212b", "a" * 200, "007"])
    labels, names = torch.tensor([0, 1, 1, 0, 1]), ("na\u00efve", "n" * 150)
    every = torch.arange(5)
    for align in (AlignSettings(), AlignSettings(case="fold"), AlignSettings(trim="all")):
        record = LabelRecord.of(ids, labels, names, Rows(every, every[:0], every), align)
        for row, text in enumerate(ids.tolist()):
            form = normalise(text, align).encode()
            name = names[int(labels[row])].encode()
            key = record.keys[row].tobytes()
            secret = bytes.fromhex(record.secret)
            assert record.people[row].tobytes() == hmac.digest(secret, form, "sha256")
            assert record.commitments[row].tobytes() == hmac.digest(key, name, "sha256")
        assert record.open(ids, [names[n] for n in labels.tolist()]).tolist() == labels.tolist()

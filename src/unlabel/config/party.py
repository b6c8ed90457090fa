"""What a party serves, watches for and applies to what it sends, and how ids are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from unlabel.config.checks import expect, one_of

#: What a passive party serves unless its owner says otherwise: every request there is.
SERVES = (
    *("Describe", "Prepare", "Embed", "Gradients", "Save", "Restore", "RetainVersions"),
    *("AccumulateFisher", "AccumulateUpdates", "SyntheticInputs", "TransformWeights"),
    *("BeginRequest", "Stage", "Commit", "Rollback", "Purge", "Status", "Attest"),
    *("Match", "Offer", "Common", "CompareLayers"),
    *("BeginLabelFree", "ContrastAlone", "Freeze", "AttestBase"),
)
#: What a party serves whose bottom never sees a label, by whether others' gradients may move it.
BLIND_SERVES = (
    *("Describe", "Embed", "Save", "Restore", "RetainVersions", "Status"),
    *("Match", "Offer", "Common"),
    *("BeginLabelFree", "ContrastAlone", "Freeze", "AttestBase"),
)
MonitorMode = Literal["none", "warn", "refuse"]
#: Fewest rows of which a spread or a correlation says anything.
FEW_ROWS = 8
#: Fewest common rows by default.
SMALLEST = 100


@dataclass(frozen=True)
class Policy:
    """A passive party's rules; whatever breaks one is refused with a reason and logged.

    serves             kinds of request that are answered at all
    max_rows           most rows in one request for embeddings
    max_gradient_norm  largest norm of the gradients in one message; they must also be finite
    max_gradient_jump  the same as a factor of the median norm of the last messages; 0 is no limit
    max_versions       most versions of its state the party keeps on its disk
    max_lines          most lines of its ledger; from then on it takes up no new request
    max_ids            most ids in one request to match rows
    min_common         fewest rows it agrees to share with all others, and fewest ids it matches
    max_new            most ids of new people in one request to match; 0 matches none
    kept_embeddings    whether the label holder may keep the embeddings of all rows
    max_rows_a_day     most rows it embeds in a day of UTC; 0 is no limit
    max_steps_a_day    most gradients it takes in a day; 0 is no limit
    max_requests_a_day  most requests to forget it takes up in a day; 0 is no limit
    layers             whether it tells how alike its inner layers are before and after a request
    """

    serves: tuple[str, ...] = SERVES
    max_rows: int = 16_384
    max_gradient_norm: float = 100.0
    max_gradient_jump: float = 0.0
    max_versions: int = 8
    max_lines: int = 5_000
    max_ids: int = 2_000_000
    min_common: int = 100
    max_new: int = 10_000
    kept_embeddings: bool = True
    layers: bool = False
    max_rows_a_day: int = 0
    max_steps_a_day: int = 0
    max_requests_a_day: int = 0

    def __post_init__(self) -> None:
        for kind in self.serves:
            one_of("request", kind, SERVES)
        for name in ("max_rows", "max_lines", "max_ids", "min_common"):
            expect(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        norm, jump = self.max_gradient_norm, self.max_gradient_jump
        expect("max_gradient_norm", norm, norm > 0, "above 0")
        expect("max_gradient_jump", jump, jump == 0 or 1 < jump < math.inf, "0, or above 1")
        expect("max_versions", self.max_versions, self.max_versions >= 3, "at least 3")
        for name in ("max_new", "max_rows_a_day", "max_steps_a_day", "max_requests_a_day"):
            expect(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")


@dataclass(frozen=True)
class MonitorSettings:
    """How the active party watches for anomalies in what the others send.

    mode    refuse: stop where a party is suspect; warn: write it to the log and go on; none
    limit   factor by which the size of a batch may leave the median of the party's last batches
    window  batches of a party that are remembered
    probe   rows that are asked for twice, in two orders, before a training; 0 asks none
    """

    mode: MonitorMode = "refuse"
    limit: float = 4.0
    window: int = 32
    probe: int = 64

    def __post_init__(self) -> None:
        one_of("monitor.mode", self.mode, get_args(MonitorMode))
        expect("monitor.limit", self.limit, 1 < self.limit < 1e6, "a factor above 1")
        expect("monitor.window", self.window, 16 <= self.window <= 4096, "from 16 to 4096")
        probed = self.probe == 0 or self.probe >= FEW_ROWS
        expect("monitor.probe", self.probe, probed, f"0, or {FEW_ROWS} or more")


@dataclass(frozen=True)
class DefendSettings:
    """Defences by words like gaussian:clip=1:sigma=0.1, applied in the order given.

    gradients   what the active party applies to the gradients it sends
    embeddings  what each passive party applies to the embeddings it sends
    seed        names the noise, so that a bench can repeat it and whoever knows it take it off;
                by default noise is drawn from the machine's secret source
    """

    gradients: list[str] = field(default_factory=list)
    embeddings: list[str] = field(default_factory=list)
    seed: int | None = None

    def __post_init__(self) -> None:
        expect("defend.seed", self.seed, self.seed is None or self.seed >= 0, "0 or more")


#: psi        by private set intersection: nobody sees an id it does not have
#: plaintext  by comparing the ids themselves, in one process that holds all tables anyway
AlignMethod = Literal["psi", "plaintext"]


@dataclass(frozen=True)
class AlignSettings:
    """How ids are compared; every party of a run must do it the same way.

    method    psi or plaintext; by default plaintext if all tables lie in one place, psi between
              organisations or where `smallest` was set, which psi alone holds to
    smallest  fewest common rows that psi works with: fewer would single people out
    trim      which blanks count for nothing: those at the ends, or all
    case      keep upper and lower case apart, or fold them into one
    unicode   form in which characters are compared: NFC, NFKC or none
    """

    method: AlignMethod | None = None
    smallest: int = SMALLEST
    trim: Literal["ends", "all"] = "ends"
    case: Literal["keep", "fold"] = "keep"
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"

    def __post_init__(self) -> None:
        expect("align.smallest", self.smallest, self.smallest >= 1, "at least 1")

    def resolved(self, *, together: bool) -> AlignSettings:
        """Return the settings with a method named.

        together  all tables lie in one place, with one person who sees all ids anyway

        >>> AlignSettings().resolved(together=True).method
        'plaintext'
        """
        if self.method is not None:
            return self
        plaintext = together and self.smallest == SMALLEST
        return replace(self, method="plaintext" if plaintext else "psi")

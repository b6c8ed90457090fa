"""A bottom model with the rows it reads: what every party with features has."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unlabel.data import Features, Scaling
from unlabel.errors import CheckpointError
from unlabel.files import sha256
from unlabel.models.fitting import fit_parts
from unlabel.party.draft import DRAFT, Drafted
from unlabel.party.graphs import Replay
from unlabel.party.lateness import Foresight
from unlabel.party.learner import Learner, Place
from unlabel.party.optimiser import OptimiserSettings
from unlabel.party.randomness import Stream
from unlabel.wire import DraftRule, Mode

#: Shapes of batch that have a graph of their own, a mode.
SHAPES = 6
#: Rows that are read at a time where a model is fitted to all of them.
PIECE = 4096

WORDS = (
    "its rows are the words of texts, which no gradient moves; choose a method that makes no "
    "inputs of its own, or train on a frozen encoder (`model.text.frozen`)."
)
UNPREPARED = "nothing was prepared or restored yet."


def fingerprint(features: Features) -> str:
    """Return the SHA-256 of features: their shape, then every value in the order of the rows."""
    values = features.values.cpu().contiguous()
    return sha256(str(tuple(values.shape)).encode() + values.numpy().tobytes())


class Bottom(Learner):
    """A bottom model G_k with the rows it reads: embeddings H_k = G_k(x_k).

    The features are scaled here, on their owner's side; the statistics are part of the state.
    """

    def __init__(
        self,
        module: nn.Module,
        features: Features,
        settings: OptimiserSettings,
        *,
        stream: Stream,
        place: Place,
        foresee: bool = False,
    ) -> None:
        super().__init__(module, settings, stream=stream, place=place)
        self._foresight = Foresight(self.module, foresee=foresee)
        self.tables = {"main": features.to(place.device)}
        self.scaling: Scaling | None = None
        self._draft: Drafted | None = None
        self._digest: str | None = None
        # All parties crop by one stream, so that the parts of an image move together.
        self._crops = Stream(stream.seed, "crops")
        # One graph a mode: normalisation runs other kernels where it is frozen.
        # A request asks for a few sizes of batch, over and over.
        modes = ("train", "frozen") if place.graphs else ()
        self._replays = {mode: Replay(self.module, SHAPES) for mode in modes}

    def add_table(self, name: str, features: Features) -> None:
        """Add rows that are no part of training, for example new people to predict.

        As `main`, take other rows to train on: those that all parties turned out to share.
        """
        self.tables[name] = features.to(self.place.device)
        if name == "main":
            self._digest = None

    def features_digest(self) -> str:
        """Return a fingerprint of the rows the model is trained on."""
        if self._digest is None:
            self._digest = fingerprint(self.tables["main"])
        return self._digest

    def prepare(self, rows: Tensor, steps: int) -> None:
        """Fit scaling and model to the training rows, for a training of so many steps."""
        self.announce(steps)
        self.scaling = Scaling.fit(self.tables["main"], rows).to(self.place.device)
        fit_parts(self.module, lambda: (self._plain(piece) for piece in rows.split(PIECE)))

    def _plain(self, rows: Tensor) -> Tensor:
        return self._read(rows, "main", augment=False, step=0)

    def count(self, table: str) -> int:
        """Return how many rows a table has, 0 for one that is not there; drafts follow the main."""
        if table == DRAFT:
            return len(self.tables["main"]) + len(self._draft.values) if self._draft else 0
        return len(self.tables[table]) if table in self.tables else 0

    def start_draft(
        self, rows: Tensor, count: int, *, rule: DraftRule, rate: float, decay: float
    ) -> None:
        """Make inputs that can be moved: copies of rows, or noise where there are none."""
        main, scaling = self.tables["main"], self._scaled()
        if main.values.dtype == torch.int64:
            raise CheckpointError(WORDS, code="wrong-request")
        if len(rows):
            values = scaling.apply(main.batch(rows, augment=False))
        else:
            self._stream.start("draft", self.place.device)
            values = torch.randn(count, *main.shape, device=self.place.device)
        unit = torch.ones((), device=self.place.device)
        if not main.values.is_floating_point():  # the range of a pixel, as the model reads it
            unit = (torch.iinfo(main.values.dtype).max / scaling.std).float()
        self._draft = Drafted(values, rule=rule, rate=rate, decay=decay, unit=unit)

    def learn(self, embeddings: Tensor, gradients: Tensor, step: int) -> None:
        """Carry gradients of embeddings back into the weights, and move those."""
        embeddings.backward(gradients)
        self._foresight.note(moved=False)
        self.descend(step)
        self._foresight.note(moved=True)

    def consider(self, embeddings: Tensor, gradients: Tensor, into: str, weight: float) -> None:
        """Carry gradients of embeddings back into the weights, and add their squares to a sum."""
        embeddings.backward(gradients)
        self.weigh(into, weight)

    def redraft(self, embeddings: Tensor, gradients: Tensor) -> None:
        """Carry gradients of embeddings back into the draft, and move that."""
        if self._draft is None:
            raise CheckpointError("it has no draft.", code="wrong-request")
        (found,) = torch.autograd.grad(embeddings, [self._draft.values], gradients)
        self._draft.move(found)

    def _scaled(self) -> Scaling:
        if self.scaling is None:
            raise CheckpointError(UNPREPARED, code="wrong-request")
        return self.scaling

    def _read(self, rows: Tensor, table: str, *, augment: bool, step: int) -> Tensor:
        """Return rows as the model reads them: scaled, in training cropped."""
        held = self.tables["main" if table == DRAFT else table]
        if augment and held.augment != "none":
            self._crops.start(step, self.place.device)
        if table != DRAFT or self._draft is None:
            return self._scaled().apply(held.batch(rows, augment=augment))
        rows = rows.to(self.place.device)
        own = rows < len(held)
        drafted = self._draft.values[rows[~own] - len(held)]
        x = torch.empty(len(rows), *held.shape, device=self.place.device)
        x[~own] = drafted
        if own.any():
            x[own] = self._scaled().apply(held.batch(rows[own], augment=augment))
        return x

    def settle(self) -> None:
        """Move as in training again, and drop what a request made."""
        super().settle()
        self._draft = None
        self._foresight.reset()

    def embed(
        self, rows: Tensor, *, table: str, mode: Mode, step: int, ahead: int | None = None
    ) -> Tensor:
        """Return the embeddings of rows, in training with the graph that leads back to them.

        ahead  updates that will come before the gradients of these rows; None where there can be
               none, and the graph may hold the weights themselves
        """
        with torch.set_grad_enabled(mode != "predict"):
            x = self._read(rows, table, augment=mode == "train", step=step)
            if mode != "inputs":
                x = x.detach()
            self.begin(mode, step)
            if x.dim() == 4 and self.place.device.type == "cuda":
                x = x.contiguous(memory_format=torch.channels_last)
            run = self._replays.get(mode, self.module)
            with self.place.autocast():
                if ahead is None or mode == "predict":
                    embeddings: Tensor = run(x)
                else:
                    embeddings = self._foresight.run(x, ahead)
        return embeddings.float()

    def state(self) -> dict[str, Tensor]:
        """Return the model, the optimiser and the scaling."""
        return {**super().state(), **self._scaling_state()}

    def model_state(self) -> dict[str, Tensor]:
        """Return the model and the scaling."""
        return {**super().model_state(), **self._scaling_state()}

    def _scaling_state(self) -> dict[str, Tensor]:
        if self.scaling is None:
            raise CheckpointError(UNPREPARED, code="wrong-request")
        return {"scaling/mean": self.scaling.mean, "scaling/std": self.scaling.std}

    def load_state(self, named: dict[str, Tensor]) -> None:
        """Return to a state."""
        super().load_state(named)
        scaling = Scaling(named["scaling/mean"], named["scaling/std"])
        self.scaling = scaling.to(self.place.device)

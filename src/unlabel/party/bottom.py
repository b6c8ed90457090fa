"""A bottom model with the rows it reads: what every party with features has."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unlabel.config import OptimiserSettings
from unlabel.data import Features, Scaling
from unlabel.data.features import random_crop
from unlabel.data.views import view
from unlabel.errors import CheckpointError
from unlabel.files import sha256
from unlabel.models.contrast import Projection, nt_xent
from unlabel.models.registry import fit_parts
from unlabel.party.graphs import Replay
from unlabel.party.learner import Learner, Place
from unlabel.party.optimisers import Adam
from unlabel.party.randomness import Stream
from unlabel.wire import InputRule, Mode

#: The table of synthetic inputs: the party's own rows come first in it, then what it made.
SYNTHETIC = "synthetic"
#: Shapes of batch that have a graph of their own, a mode.
SHAPES = 6
#: Rows that are read at a time where a model is fitted to all of them.
PIECE = 4096

#: Under which the head of own views stands in a state.
HEAD = "head/"

WORDS = (
    "its rows are the words of texts, which no gradient moves; choose a method that makes no "
    "inputs of its own, or train on a frozen encoder (`model.text.frozen`)."
)


def fingerprint(features: Features) -> str:
    """Return the SHA-256 of features: their shape, then every value in the order of the rows."""
    values = features.values.cpu().contiguous()
    return sha256(str(tuple(values.shape)).encode() + values.numpy().tobytes())


class MovableInputs:
    """Inputs a party made, which gradients move.

    With g the gradient, plus that of decay x mean squared norm: sign takes x - rate unit sign(g).
    """

    def __init__(
        self, values: Tensor, *, rule: InputRule, rate: float, decay: float, unit: Tensor
    ) -> None:
        self.values = values.detach().clone().requires_grad_()
        self._rate, self._decay, self._unit = rate, decay, unit
        self._adam = Adam([self.values], lr=rate) if rule == "adam" else None

    @torch.no_grad()
    def move(self, gradients: Tensor) -> None:
        """Move the inputs against gradients."""
        towards = gradients + 2 * self._decay * self.values / len(self.values)
        if self._adam is None:
            self.values -= self._rate * self._unit * towards.sign()
        else:
            self.values.grad = towards
            self._adam.step()


class OwnContrast:
    """What holds two views of a party's own row together: NT-Xent on a projection P.

    With H and H' the embeddings of the first and second views: nt_xent(P(H), P(H')).
    """

    def __init__(
        self,
        width: int,
        settings: OptimiserSettings,
        steps: int,
        temperature: float,
        *,
        stream: Stream,
        place: Place,
    ) -> None:
        stream.start("init", torch.device("cpu"))
        self.head = Learner(Projection(width), settings, stream=stream, place=place)
        self.head.use_optimiser(settings, steps)
        self._temperature = temperature

    def loss(self, embeddings: Tensor, step: int) -> Tensor:
        """Return the loss of embeddings, all first views before all second ones."""
        self.head.begin("pair", step)
        with self.head.place.autocast():
            first, second = self.head.module(embeddings).chunk(2)
        return nt_xent(first, second, self._temperature)

    def state(self) -> dict[str, Tensor]:
        """Return the head and its optimiser, by name."""
        return {f"{HEAD}{name}": tensor for name, tensor in self.head.state().items()}

    def load_state(self, named: dict[str, Tensor]) -> None:
        """Return to a state of the head."""
        head = {k.removeprefix(HEAD): v for k, v in named.items() if k.startswith(HEAD)}
        self.head.load_state(head)


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
    ) -> None:
        super().__init__(module, settings, stream=stream, place=place)
        self.tables = {"main": features.to(place.device)}
        self.scaling: Scaling | None = None
        self.is_frozen = False
        self.own_contrast: OwnContrast | None = None
        self._seen: Tensor | None = None
        self._flip = True
        self._synthetic: MovableInputs | None = None
        self._digest: str | None = None
        # All parties crop by one stream, so that the parts of an image move together.
        self._crops = Stream(stream.seed, "crops")
        # One graph a mode: normalisation runs other kernels where it is frozen.
        # A request asks for a few sizes of batch, over and over.
        modes = ("train", "frozen") if place.graphs else ()
        self._replays = {mode: Replay(self.module, SHAPES) for mode in modes}

    def add_table(self, name: str, features: Features) -> None:
        """Add rows, such as new people to predict, or replace those to train on (`main`)."""
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
        if not self.is_frozen:  # made without labels: no training with labels fits it anew
            self._fit(rows)

    def begin_label_free(
        self,
        rows: Tensor,
        settings: OptimiserSettings,
        steps: int,
        views: OwnContrast | None,
        *,
        flip: bool = True,
    ) -> None:
        """Fit scaling and model to rows, and move with another optimiser where there are steps.

        views  what two views of a row are held together by
        flip   whether views of images are mirrored

        It begins with the weights of the beginning: what an interrupted one has moved is undone.
        """
        self.transform_weights("begin")
        self._fit(rows)
        self.is_label_free = True
        self._seen, self._flip = rows, flip
        self.own_contrast = views
        self.use_optimiser(settings, steps)

    def freeze(self) -> None:
        """Keep scaling and fitted parts for good, and begin every training with these weights."""
        self.is_frozen, self.is_label_free, self.own_contrast = True, False, None
        self.end_request()
        self.begin_here()

    def _fit(self, rows: Tensor) -> None:
        self.scaling = Scaling.fit(self.tables["main"], rows).to(self.place.device)

        def read() -> Iterator[Tensor]:
            for piece in rows.split(PIECE):
                yield self._read(piece, "main", augment=False, step=0)

        fit_parts(self.module, read)

    def count(self, table: str) -> int:
        """Return how many rows a table has, 0 for one that is not there."""
        if table == SYNTHETIC:
            return len(self.tables["main"]) + len(self._synthetic.values) if self._synthetic else 0
        return len(self.tables[table]) if table in self.tables else 0

    def make_inputs(
        self, rows: Tensor, count: int, *, rule: InputRule, rate: float, decay: float
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
        self._synthetic = MovableInputs(values, rule=rule, rate=rate, decay=decay, unit=unit)

    def learn(self, embeddings: Tensor, gradients: Tensor, step: int) -> None:
        """Carry gradients of embeddings back into the weights, and move those.

        Two views of a party's rows are held together by its own objective as well.
        """
        if self.own_contrast is None:
            embeddings.backward(gradients)
        else:
            apart = self.own_contrast.loss(embeddings, step)
            torch.autograd.backward([embeddings, apart], [gradients, None])
            self.own_contrast.head.descend(step)
        self.descend(step)

    def contrast_alone(self, rows: Tensor, size: int, step: int) -> None:
        """Pass over rows once, in the order given, by the party's own views alone."""
        for number, some in enumerate(rows.split(size), step):
            embeddings = self.embed(some, table="main", mode="pair", step=number)
            self.learn(embeddings, torch.zeros_like(embeddings), number)

    def move_inputs(self, embeddings: Tensor, gradients: Tensor) -> None:
        """Carry gradients of embeddings back into the synthetic inputs, and move those."""
        if self._synthetic is None:
            raise CheckpointError("it has no synthetic inputs.", code="wrong-request")
        (of_inputs,) = torch.autograd.grad(embeddings, [self._synthetic.values], gradients)
        self._synthetic.move(of_inputs)

    def _scaled(self) -> Scaling:
        if self.scaling is None:
            raise CheckpointError("nothing was prepared or restored yet.", code="wrong-request")
        return self.scaling

    def _read(self, rows: Tensor, table: str, *, augment: bool, step: int) -> Tensor:
        """Return rows as the model reads them: scaled, in training cropped."""
        features = self.tables["main" if table == SYNTHETIC else table]
        if augment and features.augment != "none":
            self._crops.start(step, self.place.device)
        if table != SYNTHETIC or self._synthetic is None:
            return self._scaled().apply(features.batch(rows, augment=augment))
        rows = rows.to(self.place.device)
        real = rows < len(features)
        x = torch.empty(len(rows), *features.shape, device=self.place.device)
        x[~real] = self._synthetic.values[rows[~real] - len(features)]
        if real.any():
            x[real] = self._scaled().apply(features.batch(rows[real], augment=augment))
        return x

    def inputs(self, rows: Tensor, named: dict[str, Tensor] | None = None) -> Tensor:
        """Return own rows as the present model reads them, or as that of a kept state does."""
        if named is None:
            return self._read(rows, "main", augment=False, step=0)
        scaling = Scaling(named["scaling/mean"], named["scaling/std"]).to(self.place.device)
        return scaling.apply(self.tables["main"].batch(rows, augment=False))

    def _views(self, rows: Tensor, mode: Mode, step: int) -> Tensor:
        """Return random views of rows, scaled: for a pair two of each, of the party's own drawing.

        One view is mild, and images move and flip at all parties alike.
        """
        main = self.tables["main"]
        stream = self._crops if mode == "view" else self._stream
        stream.start(f"{mode}/{step}", self.place.device)
        if mode == "pair":
            seen = view(main, rows.repeat(2), among=self._seen, flip=self._flip)
        elif main.values.dim() == 4:
            seen = random_crop(main.batch(rows, augment=False), flip=self._flip)
        else:
            seen = view(main, rows)
        return self._scaled().apply(seen)

    def end_request(self) -> None:
        """Use the optimiser of training again, and drop sums and synthetic inputs."""
        super().end_request()
        self._synthetic = None

    def embed(self, rows: Tensor, *, table: str, mode: Mode, step: int) -> Tensor:
        """Return the embeddings of rows, in training with the graph that leads back to them."""
        with torch.set_grad_enabled(mode not in ("predict", "view")):
            if mode in ("pair", "view"):
                x = self._views(rows, mode, step)
            else:
                x = self._read(rows, table, augment=mode == "train", step=step)
            if mode != "inputs":
                x = x.detach()
            self.begin(mode, step)
            if x.dim() == 4 and self.place.device.type == "cuda":
                x = x.contiguous(memory_format=torch.channels_last)
            run = self._replays.get(mode, self.module)
            with self.place.autocast():
                embeddings: Tensor = run(x)
        return embeddings.float()

    def state(self) -> dict[str, Tensor]:
        """Return the model, the optimiser and the scaling, and the head of own views if any."""
        head = {} if self.own_contrast is None else self.own_contrast.state()
        return {**super().state(), **self._scaling_state(), **head}

    def model_state(self) -> dict[str, Tensor]:
        """Return the model and the scaling."""
        return {**super().model_state(), **self._scaling_state()}

    def _scaling_state(self) -> dict[str, Tensor]:
        scaling = self._scaled()
        return {"scaling/mean": scaling.mean, "scaling/std": scaling.std}

    def load_state(self, named: dict[str, Tensor]) -> None:
        """Return to a state."""
        if self.own_contrast is not None:
            self.own_contrast.load_state(named)
        super().load_state({k: v for k, v in named.items() if not k.startswith(HEAD)})
        scaling = Scaling(named["scaling/mean"], named["scaling/std"])
        self.scaling = scaling.to(self.place.device)

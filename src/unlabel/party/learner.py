"""A model and the optimiser that moves it: what every party has."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from unlabel.config import OptimiserSettings, Precision
from unlabel.errors import CheckpointError
from unlabel.files import sha256
from unlabel.party.optimisers import Adam, learning_rate, make_optimiser
from unlabel.party.randomness import Stream
from unlabel.party.transform import Sums, dampen, noise
from unlabel.wire import Mode, Rule


@dataclass(frozen=True)
class Place:
    """Where a party computes: the device, the precision of products, graphs or not."""

    device: torch.device
    precision: Precision = "float32"
    graphs: bool = False

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which a model runs forward."""
        if self.precision == "float32":
            return contextlib.nullcontext()
        # A graph must cast the weights at every replay, so it cannot use casts made before it.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=not self.graphs)


class Learner:
    """A model with its optimiser, its rate over time and its random stream."""

    def __init__(
        self, module: nn.Module, settings: OptimiserSettings, *, stream: Stream, place: Place
    ) -> None:
        self.module = module.to(place.device)
        if place.device.type == "cuda":
            # Convolutions read this layout without rearranging; other layers do not mind.
            self.module = self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.place = place
        self.steps = 0
        #: Whether it is being made without labels: a return to a version goes on with that.
        self.is_label_free = False
        # Parts that their owner froze stay frozen.
        self._frozen = [part for part in module.modules() if module.training and not part.training]
        self._training = settings
        self._stream = stream
        self._weights = list(self.module.parameters())
        # Where `TransformWeights` begins again: on the host, small beside what training needs.
        self._initial = {k: v.detach().cpu().clone() for k, v in self.module.state_dict().items()}
        self.sums, self.updates, self._update_sum = Sums(), Sums(), ""
        self.use_optimiser(settings, None)

    def use_optimiser(self, settings: OptimiserSettings, steps: int | None) -> None:
        """Use another, fresh optimiser over these steps; None is a training, as announced."""
        self._settings = settings
        self._span = steps
        self._optimiser = make_optimiser(settings, self._weights)
        self.clear()

    def begin(self, mode: Mode, step: int) -> None:
        """Set the model to train or predict, and start the step's random stream."""
        training = mode in ("train", "pair")  # the others run alike
        if self.module.training != training:
            self.module.train(training)
            for part in self._frozen:
                part.training = False
        self._stream.start(step if mode == "train" else f"{mode}/{step}", self.place.device)

    def announce(self, steps: int) -> None:
        """Note how many steps a training has; a request has its own, and leaves these known."""
        if self._span is None:
            self.steps = steps

    def reinitialise(self, share: float) -> None:
        """Draw the last layers anew, as many as hold this share of the weights.

        A layer is a part with `reset_parameters` that its owner did not freeze.
        """
        self._stream.start("renew", self.place.device)
        layers = [
            part
            for part in self.module.modules()
            if hasattr(part, "reset_parameters")
            and part not in self._frozen
            and all(weights.requires_grad for weights in part.parameters(recurse=False))
        ]
        left = share * sum(weights.numel() for weights in self._weights)
        for layer in reversed(layers):
            if left <= 0:
                break
            layer.reset_parameters()  # type: ignore[operator]
            left -= sum(weights.numel() for weights in layer.parameters(recurse=False))

    def begin_here(self) -> None:
        """Take the present weights for those that `TransformWeights` begins again with."""
        self._initial = {k: v.detach().cpu().clone() for k, v in self.module.state_dict().items()}

    def end_request(self) -> None:
        """Use the optimiser of training again, fresh, and drop all sums."""
        self.use_optimiser(self._training, None)
        self.sums, self.updates, self._update_sum = Sums(), Sums(), ""

    def accumulate_fisher(self, sum_name: str, weight: float) -> None:
        """Add the squared gradients to a sum, and move nothing."""
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in self._weights]
        self.sums.add_squares(sum_name, gradients, weight)
        self.clear()

    def accumulate_updates(self, sum_name: str) -> None:
        """Add what the next step changes to a sum."""
        self._update_sum = sum_name

    @torch.no_grad()
    def transform_weights(
        self,
        rule: Rule,
        sum_name: str = "",
        reference: str = "",
        threshold: float = 0,
        strength: float = 0,
    ) -> None:
        """Change the weights at once; see `TransformWeights` for the rules."""
        if rule == "begin":
            self.module.load_state_dict(self._initial)
        elif rule == "dampen":
            some, every = self.sums.mean(sum_name), self.sums.mean(reference)
            dampen(self._weights, some, every, threshold=threshold, strength=strength)
        elif rule == "noise":
            # By the weights as they are, so that no later request adds the same noise again.
            self._stream.start(f"noise/{self.fingerprint()}", self.place.device)
            noise(self._weights, self.sums.mean(sum_name), strength=strength)
        else:
            for weights, update in zip(self._weights, self.updates.total(sum_name), strict=True):
                weights.sub_(update)

    def descend(self, step: int) -> None:
        """Move the weights against their gradients, at the rate of this step."""
        rate = learning_rate(self._settings, step, self.steps if self._span is None else self._span)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        before = [weights.detach().clone() for weights in self._weights] if self._update_sum else []
        self._optimiser.step()
        if self._update_sum:
            updates = [now.detach() - old for now, old in zip(self._weights, before, strict=True)]
            self.updates.add(self._update_sum, updates)
            self._update_sum = ""
        self.clear()

    def clear(self) -> None:
        """Drop gradients."""
        for weights in self._weights:
            weights.grad = None

    def fingerprint(self) -> str:
        """Return a digest of the weights."""
        tensors = [weights.detach().float().cpu().contiguous() for weights in self._weights]
        return sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors))

    def is_finite(self) -> bool:
        """Tell whether training has left weights, statistics and the optimiser's memory finite."""
        # Other buffers are not looked at: a mask may hold infinity on purpose.
        memory = [v for k, v in self.state().items() if k.startswith("optimiser/")]
        for part in self.module.modules():
            if isinstance(part, _NormBase):
                memory += [b for b in part.buffers(recurse=False) if b.is_floating_point()]
        return all(bool(torch.isfinite(t).all()) for t in [*self._weights, *memory])

    def model_state(self) -> dict[str, Tensor]:
        """Return the model's part of the state: without the optimiser, which remembers rows."""
        return {f"model/{name}": tensor for name, tensor in self.module.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        named = Learner.model_state(self)
        for index, values in self._optimiser.state_dict()["state"].items():
            for key, value in values.items():
                if isinstance(value, Tensor):
                    named[f"optimiser/{index}/{key}"] = value
        for name in self.updates.named:
            for index, tensor in enumerate(self.updates.total(name)):
                named[f"moves/{name}/{index}"] = tensor
        return named

    def load_state(self, named: dict[str, Tensor]) -> None:
        """Return to a state; one of another model is refused."""
        adam = isinstance(self._optimiser, Adam)
        keys = {"step", "exp_avg", "exp_avg_sq"} if adam else {"momentum_buffer"}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in named.items():
            if name.startswith("optimiser/"):
                _, index, key = name.split("/", 2)
                # A copy: the optimiser writes into its state, the caller's tensors stay as read.
                state.setdefault(int(index), {})[key] = tensor.clone()
                if key not in keys or int(index) >= len(self._weights):
                    raise CheckpointError("the optimiser in it is another one.")
        weights = {k.removeprefix("model/"): v for k, v in named.items() if k.startswith("model/")}
        try:
            self.module.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError("the weights in it are those of another model.") from error
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": state, "param_groups": groups})
        self.updates = Sums()
        names = {key.split("/")[1] for key in named if key.startswith("moves/")}
        for name in sorted(names):
            updates = [named[f"moves/{name}/{index}"] for index in range(len(self._weights))]
            self.updates.add(name, [m.to(w) for m, w in zip(updates, self._weights, strict=True)])
        self.clear()

"""A training as a person watches it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from torch import Tensor

    from unlabel.train import Epoch, Watcher
else:
    # A bar has all methods of a watcher itself; to inherit none would cost the import of PyTorch.
    Watcher = object

#: Seconds between two looks at the loss; each look may wait for the device.
LOOK = 0.25


class _Figures(ProgressColumn):
    """Loss and accuracy of the rows just trained on, validation accuracy of the last epoch."""

    def render(self, task: Task) -> Text:
        """Return what is known so far."""
        figures = task.fields
        parts = []
        if figures["loss"] is not None:
            parts += [f"loss {figures['loss']:.3f}", f"acc {100 * figures['accuracy']:.1f} %"]
        if figures["validated"] is not None:
            parts.append(f"val {100 * figures['validated']:.1f} %")
        if task.speed:
            parts.append(f"{task.speed:,.0f} rows/s")
        return Text(" ".join(parts), style="cyan")


class ProgressBar(Watcher):
    """One bar over all epochs with loss, accuracy and rows a second.

    Where nobody watches (a log file), a line an epoch instead.
    """

    def __init__(self, console: Console, title: str = "training") -> None:
        self._console = console
        self._title = title
        self._bar: Progress | None = None
        self._epochs = 0
        self._rows = 0
        self._looked = 0.0

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:
        """Open the bar, with the epochs that are done already."""
        self._epochs, self._rows = epochs, rows
        if history:
            self._console.print(f"Resuming after epoch {len(history)} of {epochs}.")
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=10),
                TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
                _Figures(),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task(
                self._title,
                total=epochs * rows,
                completed=len(history) * rows,
                epoch=min(len(history) + 1, epochs),
                epochs=epochs,
                loss=None,
                accuracy=None,
                validated=None,
            )
            self._bar.start()

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        """Advance; look at the loss now and then."""
        if self._bar is None:
            return
        self._bar.advance(self._task, rows)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            accuracy = correct.item() / rows
            self._bar.update(self._task, loss=loss.item(), accuracy=accuracy)

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        """Show the figures of the whole epoch."""
        validated = epoch.validation_accuracy
        if self._bar is not None:
            self._bar.update(
                self._task,
                epoch=min(epoch.epoch + 1, self._epochs),
                loss=epoch.loss,
                accuracy=epoch.accuracy,
                validated=validated,
            )
            return
        # In a log five lines a training are enough.
        if epoch.epoch % -(-self._epochs // 5) and epoch.epoch != self._epochs:
            return
        note = "" if validated is None else f"  validation {100 * validated:.1f} %"
        self._console.print(
            f"{self._title}: epoch {epoch.epoch}/{self._epochs}  loss {epoch.loss:.4f}  "
            f"accuracy {100 * epoch.accuracy:.1f} %{note}  {epoch.rows_per_second:,.0f} rows/s",
            soft_wrap=True,
        )

    def ended(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class TrainingBars(ProgressBar):
    """Two bars, one after the other: bottoms made without labels, then the training with labels.

    Where nobody watches, a few lines each.
    """

    def __init__(self, console: Console, title: str = "training") -> None:
        super().__init__(console, title)
        self._steps: StepBar | None = None

    def __enter__(self) -> TrainingBars:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_steps()
        self.ended()

    def watch(self, step: int, steps: int, note: str) -> None:
        """Show how far bottoms are made, or rows are read or embedded."""
        if self._console.is_terminal:
            if self._steps is None:
                self._steps = StepBar(self._console, "preparing").__enter__()
            self._steps.step(step, steps, note)
        elif step and (step == steps or step % -(-steps // 5) == 0):
            self._console.print(f"step {step}/{steps}: {note}", soft_wrap=True)

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:
        """Close the first bar and open the second."""
        self._close_steps()
        super().started(history, epochs, rows)

    def _close_steps(self) -> None:
        if self._steps is not None:
            self._steps.__exit__()
            self._steps = None


class StepBar:
    """A bar over the steps of a request, with a figure beside it; quiet where nobody watches."""

    def __init__(self, console: Console, title: str) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("step {task.completed}/{task.total}  {task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=None, note="")

    def __enter__(self) -> StepBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, step: int, steps: int, note: str) -> None:
        """Show how far the request has come."""
        self._bar.update(self._task, completed=step, total=steps, note=note)

"""The training loop, evaluation and prediction."""

from unlabel.train.assembly import assemble, build_active, build_passive
from unlabel.train.config import ActiveTable, PassiveTable, RunConfig
from unlabel.train.demands import AuditSettings
from unlabel.train.evaluation import Evaluation, evaluate
from unlabel.train.loading import Holdings, load_holdings
from unlabel.train.loop import Progress, Training, batch_count, batches
from unlabel.train.settings import TrainSettings
from unlabel.train.watch import Epoch, MetricsFile, TensorBoard, Watcher

__all__ = [
    "ActiveTable",
    "AuditSettings",
    "Epoch",
    "Evaluation",
    "Holdings",
    "MetricsFile",
    "PassiveTable",
    "Progress",
    "RunConfig",
    "TensorBoard",
    "TrainSettings",
    "Training",
    "Watcher",
    "assemble",
    "batch_count",
    "batches",
    "build_active",
    "build_passive",
    "evaluate",
    "load_holdings",
]

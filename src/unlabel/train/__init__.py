"""The training loop, evaluation and prediction."""

from unlabel.train.assembly import assemble, build_active, build_passive
from unlabel.train.config import ActiveTable, PassiveTable, RunConfig
from unlabel.train.demands import LEVELS, AuditSettings
from unlabel.train.evaluation import Evaluation, evaluate
from unlabel.train.facts import Conduct, Forgotten, RequestFacts, VersionFacts
from unlabel.train.loading import Holdings, load_holdings
from unlabel.train.loop import Training, batch_count, batches
from unlabel.train.progress import Progress
from unlabel.train.settings import TrainSettings
from unlabel.train.watch import Epoch, MetricsFile, TensorBoard, Watcher

__all__ = [
    "LEVELS",
    "ActiveTable",
    "AuditSettings",
    "Conduct",
    "Epoch",
    "Evaluation",
    "Forgotten",
    "Holdings",
    "MetricsFile",
    "PassiveTable",
    "Progress",
    "RequestFacts",
    "RunConfig",
    "TensorBoard",
    "TrainSettings",
    "Training",
    "VersionFacts",
    "Watcher",
    "assemble",
    "batch_count",
    "batches",
    "build_active",
    "build_passive",
    "evaluate",
    "load_holdings",
]

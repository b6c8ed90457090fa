"""The training loop, evaluation and prediction."""

from unlabel.train.assembly import assemble, build_passive
from unlabel.train.evaluation import Evaluation, evaluate
from unlabel.train.facts import Conduct, Forgotten, RequestFacts, VersionFacts
from unlabel.train.loading import Holdings, load_holdings
from unlabel.train.loop import Training, batch_count, batches
from unlabel.train.progress import Epoch, Progress
from unlabel.train.watch import MetricsFile, TensorBoard, Watcher

__all__ = ["Conduct", "Epoch", "Evaluation", "Forgotten", "Holdings", "MetricsFile", "Progress"]
__all__ += ["RequestFacts", "TensorBoard", "Training", "VersionFacts", "Watcher", "assemble"]
__all__ += ["batch_count", "batches", "build_passive", "evaluate", "load_holdings"]

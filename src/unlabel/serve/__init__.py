"""Predictions over HTTP, which never come from a model that was superseded or purged."""

from unlabel.serve.app import app
from unlabel.serve.exported import ServedTop
from unlabel.serve.limits import Limits
from unlabel.serve.model import Answer, ServedModel

__all__ = ["Answer", "Limits", "ServedModel", "ServedTop", "app"]

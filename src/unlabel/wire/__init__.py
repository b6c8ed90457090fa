"""What may cross a party's boundary, and how."""

from unlabel.wire.codec import DEFAULT_LIMITS, Limits, decode, encode, encoded_size
from unlabel.wire.local import Endpoint, LocalTransport
from unlabel.wire.messages import (
    MESSAGES,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Keep,
    Message,
    Mode,
    Prepare,
    Refused,
    Restore,
    Save,
    Saved,
    kind_of,
    tensors_of,
)
from unlabel.wire.transcript import Entry, Recorder, Transcript
from unlabel.wire.transport import Transport

__all__ = [
    "DEFAULT_LIMITS",
    "MESSAGES",
    "Describe",
    "Description",
    "Done",
    "Embed",
    "Embeddings",
    "Endpoint",
    "Entry",
    "Gradients",
    "Keep",
    "Limits",
    "LocalTransport",
    "Message",
    "Mode",
    "Prepare",
    "Recorder",
    "Refused",
    "Restore",
    "Save",
    "Saved",
    "Transcript",
    "Transport",
    "decode",
    "encode",
    "encoded_size",
    "kind_of",
    "tensors_of",
]

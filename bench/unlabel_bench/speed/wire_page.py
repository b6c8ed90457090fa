"""The figures of `wire` for people."""

from __future__ import annotations

from typing import Any

from unlabel_bench import markdown

#: The most that a call of ours may cost, as a multiple of the bare call.
MOST = 1.5


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return all figures as rows of one table."""
    rows = [["what", "size", "parties", "median", "p90", "beside"]]
    for line in result["round_trips"]:
        for kind in ("ours", "bare"):
            beside = f"ratio {line['ratio']:.2f}" if kind == "ours" else ""
            rows.append([kind, *_size(line), *_times(line[kind]), beside])
    for line in (*result["by_parties"], *result["thinking"]):
        kind = f"ours, {line['think_ms']} ms to think" if line["think_ms"] else "ours"
        rows.append([kind, *_size(line), *_times(line), f"{line['over_least']:.2f} of the least"])
    for line in result["half"]:
        size = f"{line['to_parties'] + line['from_parties']:,} B a step"
        accuracy = f"accuracy {line['accuracy']:.2%}"
        rows.append(
            [f"{line['data']}, {line['sent']}", size, str(line["parties"]), "", "", accuracy]
        )
    return rows


def page(result: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    parts = [
        "# The way between parties",
        f"A federation of {result['federation']} passive parties on one machine with "
        f"{result['cores']} cores: every party in processes of its own, mutual TLS, one open job. "
        f"`ours` is the whole way of a message, from the active party's code to a party's own "
        f"process and back, with encoding and decoding at both ends. `bare` is the engine's call "
        f"of a function that returns the same bytes at once. Blocks of both take turns.",
        "## A round trip beside a bare call",
        markdown.table(_round_trips(result)),
        f"The bound is a ratio of {MOST:g}.",
        "## Several parties",
        "`processor` is the processor time of all processes of the federation a call, and `least` "
        "the larger of the time with the fewest parties and of `processor` spread over all cores: "
        "no transport can be quicker on this machine. `bare` is the engine's own call of as many "
        "parties, which grows in the same way.",
        markdown.table(_by_parties(result["by_parties"])),
    ]
    if result["thinking"]:
        parts += [
            f"With parties that wait {result['thinking'][0]['think_ms']} ms before they answer, "
            f"as if they computed on machines of their own, a call costs the slowest and not the "
            f"sum:",
            markdown.table(_by_parties(result["thinking"])),
        ]
    if result["half"]:
        parts += [
            "## Bytes a training step",
            "Encoded messages of one step with all parties, without what the engine and TLS add. "
            "`fp16` and `bf16` send embeddings and gradients in 16 bits (`half`).",
            markdown.table(_half(result["half"])),
        ]
    return markdown.page(*parts)


def _round_trips(result: dict[str, Any]) -> list[list[str]]:
    head = ["size", "parties", "calls", "ours", "p90", "bare", "p90", "ratio", "ratio of blocks"]
    rows = [head]
    for line in result["round_trips"]:
        blocks = line["ratio_of_blocks"]
        rows.append(
            [
                *_size(line),
                str(line["calls"]),
                *_times(line["ours"]),
                *_times(line["bare"]),
                f"{line['ratio']:.2f}",
                f"{blocks['lowest']:.2f} to {blocks['highest']:.2f}",
            ]
        )
    return rows


def _by_parties(lines: list[dict[str, Any]]) -> list[list[str]]:
    head = ["size", "parties", "median", "p90", "processor", "least", "median / least", "bare"]
    rows = [head, *(_of_parties(line) for line in lines)]
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def _of_parties(line: dict[str, Any]) -> list[str]:
    processor, least = _ms(line["processor_ms"]), _ms(line["least_ms"])
    bare = "" if line["bare_ms"] is None else f"{_ms(line['bare_ms'])} (ratio {line['ratio']:.2f})"
    return [*_size(line), *_times(line), processor, least, f"{line['over_least']:.2f}", bare]


def _half(lines: list[dict[str, Any]]) -> list[list[str]]:
    head = ["data", "sent", "to parties", "from parties", "test accuracy", "by seed"]
    return [head, *(_of_sending(line) for line in lines)]


def _of_sending(line: dict[str, Any]) -> list[str]:
    by_seed = ", ".join(f"{value:.2%}" for value in line["accuracies"])
    sizes = [f"{line['to_parties']:,} B", f"{line['from_parties']:,} B"]
    return [line["data"], line["sent"], *sizes, f"{line['accuracy']:.2%}", by_seed]


def _size(line: dict[str, Any]) -> list[str]:
    return [f"{line['kib']} KiB", str(line["parties"])]


def _times(times: dict[str, float]) -> list[str]:
    return [_ms(times["median_ms"]), _ms(times["p90_ms"])]


def _ms(value: float) -> str:
    return f"{value:.1f} ms"

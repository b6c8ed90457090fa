"""The pictures: every value stands where it belongs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from markupsafe import Markup
from report import verdicts

from unlabel.audit.facts import transfers_from_json
from unlabel.report.charts import Mark, Row, bars, dot_rows, histogram, scatter, timeline
from unlabel.report.label_figures import MOST_LABELS, accuracy, destination
from unlabel.report.partner_figures import leakage, messages
from unlabel.report.svg import LEFT, RIGHT, WIDTH


def numbers(picture: Markup, tag: str, name: str, *attributes: str) -> list[tuple[float, ...]]:
    """Return attributes of all strokes of a class, in the order in which they are drawn."""
    found = re.findall(rf'<{tag} class="{re.escape(name)}"([^>]*)>', picture)
    return [
        tuple(float(re.search(rf' {a}="([^"]+)"', each)[1]) for a in attributes)  # type: ignore[index]
        for each in found
    ]


def along(share: float) -> Any:
    return pytest.approx(LEFT + (RIGHT - LEFT) * share, abs=0.06)


def test_a_value_its_interval_and_chance_stand_on_one_axis() -> None:
    row = Row("a", (Mark("forgotten", 0.5, 0.25, 0.75),), chance=0.1)
    drawn = dot_rows("k", "t", "d", [row])
    assert numbers(drawn, "circle", "mark m-forgotten", "cx") == [(along(0.5),)]
    assert numbers(drawn, "line", "range m-forgotten", "x1", "x2") == [(along(0.25), along(0.75))]
    assert numbers(drawn, "line", "chance", "x1", "x2") == [(along(0.1), along(0.1))]


def test_a_value_without_interval_has_no_line_and_none_leaves_the_plot() -> None:
    drawn = dot_rows("k", "t", "d", [Row("a", (Mark("forgotten", 1.7), Mark("original", -0.2)))])
    assert "range" not in drawn
    assert numbers(drawn, "circle", "mark m-forgotten", "cx") == [(along(1),)]
    assert numbers(drawn, "circle", "mark m-original", "cx") == [(along(0),)]


def test_models_differ_in_shape() -> None:
    marks = tuple(Mark(m, 0.5) for m in ("original", "mask", "forgotten", "retrained", "limit"))
    drawn = dot_rows("k", "t", "d", [Row("a", marks)])
    shapes = re.findall(
        r'<(\w+) class="mark m-(\w+)"[^>]*? height="(\d+)"|<(\w+) class="mark', drawn
    )
    assert len(shapes) == 5
    assert len(re.findall(r"<polygon", drawn)) == 1
    assert len(re.findall(r"<rect", drawn)) == 2


def test_a_long_name_goes_on_in_the_next_line_and_moves_what_is_below() -> None:
    names = ("short", "passive-1: rows that moved together (area under the curve)", "x" * 400)
    rows = [Row(name, (Mark("forgotten", 0.5),)) for name in names]
    drawn = dot_rows("k", "t", "a", rows)
    texts = re.findall(r'<text class="name"[^>]* y="([\d.]+)"[^>]*>([^<]*)<', str(drawn))
    lines = [words for _, words in texts]
    assert lines[0] == names[0]
    assert " ".join(lines[1:3]) == names[1]
    assert lines[5].endswith("…")
    assert len(lines) == 1 + 2 + 3
    # A mark lies below the last line of its name and above the next name.
    feet = [float(y) for y, _ in texts]
    marks = [y for (y,) in numbers(drawn, "circle", "mark m-forgotten", "cy")]
    assert feet[0] < marks[0] < feet[1] < feet[2] < marks[1] < feet[3] < feet[5] < marks[2]


def test_bars_are_as_long_as_their_shares() -> None:
    rows = [
        Row("a", (Mark("forgotten", 0.25), Mark("retrained", 1.0))),
        Row("b", (Mark("mask", 0),)),
    ]
    drawn = bars("k", "t", "d", rows)
    ((quarter,),) = numbers(drawn, "rect", "bar m-forgotten", "width")
    assert quarter == pytest.approx((RIGHT - LEFT) / 4, abs=0.06)
    assert numbers(drawn, "rect", "bar m-retrained", "width") == [(RIGHT - LEFT,)]
    assert "m-mask" not in drawn


def test_a_histogram_compares_shares_not_counts() -> None:
    groups = {"members": [1, 3], "strangers": [100, 300]}
    drawn = histogram("k", "t", "d", [0.0, 1.0, 2.0], groups)
    outlines = re.findall(r'<polyline class="(\w+)" points="([^"]+)"', drawn)
    assert [name for name, _ in outlines] == ["members", "strangers"]
    assert outlines[0][1] == outlines[1][1]
    heights = [128 - float(point.split(",")[1]) for point in outlines[0][1].split()]
    assert heights == [0, 40, 40, 120, 120, 0]


def test_maps_with_one_box_have_one_scale() -> None:
    points = [[0.0, 0.0, 0], [1.0, 1.0, 1]]
    drawn = scatter("k", "t", "d", points, (0, 2, 0, 2), ["a", "b"], [1])
    assert numbers(drawn, "circle", "dot", "cx", "cy") == [(10, 10 + (WIDTH - 20) * 0.8)]
    assert numbers(drawn, "circle", "dot-forgotten", "cx", "cy") == [
        (WIDTH / 2, 10 + (WIDTH - 20) * 0.4)
    ]


def test_names_on_a_map_do_not_cover_each_other() -> None:
    points = [[0.5, 0.5, label] for label in range(4)] + [[0.0, 0.0, 4], [1.0, 1.0, 4]]
    drawn = scatter("k", "t", "d", points, (0, 1, 0, 1), list("abcde"), [2])
    assert re.findall(r'class="halo strong name-forgotten"[^>]*>(\w)<', drawn) == ["c"]
    assert len(re.findall(r'class="halo"', drawn)) == 1  # the one elsewhere


def test_a_timeline_adds_up_what_went_at_a_time() -> None:
    lane = [(0.0, "received", 100), (0.001, "received", 100), (1.0, "sent", 50)]
    drawn = timeline("k", "t", "d", {"left": lane, "right": []}, ("first", "last"))
    (up,) = numbers(drawn, "rect", "bar received", "height", "y")
    (down,) = numbers(drawn, "rect", "bar sent", "height", "y")
    assert (up[0], down[0]) == (34, 8.5)
    assert up[0] + up[1] == down[1]  # both start at the same line
    assert "received 200 B, sent 50 B" in drawn
    assert "received 0 B, sent 0 B" in drawn


def test_every_picture_scales_with_its_place_and_holds_no_colour_of_its_own() -> None:
    for chapter in (accuracy(verdicts.full()), leakage(verdicts.full())):
        for _, drawn in chapter.pictures:
            assert f'viewBox="0 0 {WIDTH} ' in drawn
            assert "#" not in drawn
            assert "fill=" not in drawn


def test_of_many_labels_those_that_changed_are_drawn_and_all_stand_in_the_table() -> None:
    names = [f"label {n}" for n in range(60)]
    lines = [[0.9, 0.8, 0.95, 40] for _ in names]
    after = [*lines[:-1], [0.2, 0.1, 0.3, 40]]
    forgotten = [*after[:7], [0.0, 0.0, 0.1, 40], *after[8:]]
    pictures = {
        "labels": names,
        "forgotten": [7],
        "accuracy": {"original": lines, "forgotten": forgotten},
    }
    found = accuracy(replace(verdicts.full(), pictures=pictures))
    drawn = found.pictures[0][1]
    assert drawn.count("mark m-forgotten") == MOST_LABELS
    assert ">label 7<" in drawn
    assert ">label 59<" in drawn
    assert found.table is not None
    assert len(found.table.rows) == 60
    assert found.table.rows[7][0] == "label 7 (forgotten)"
    assert found.table.rows[59] == (
        "label 59",
        "90.0 % (80.0 to 95.0)",
        "20.0 % (10.0 to 30.0)",
        "40",
    )


def test_destinations_that_nobody_goes_to_are_left_out_of_the_picture() -> None:
    shares = [0.0, 0.7, 0.3, 0.004]
    where = {"forgotten": {"shares": shares, "rows": 250, "entropy": 0.63}}
    pictures = {"labels": list("abcd"), "forgotten": [0], "destination": where}
    found = destination(replace(verdicts.full(), pictures=pictures))
    assert re.findall(r">(\w)</text>", found.pictures[0][1]) == ["b", "c"]
    assert found.table is not None
    assert found.table.rows[3] == ("d", "0.4 %")
    assert found.table.rows[4:] == (("Samples", "250"), ("Spread (entropy in nats)", "0.63"))


def test_a_limit_that_limits_nothing_is_not_drawn() -> None:
    full = verdicts.full()
    assert "Proven limit" in leakage(full).pictures[0][1]
    useless = replace(full, privacy=replace(full.privacy, information=2.4))
    assert "Proven limit" not in leakage(useless).pictures[0][1]


def test_messages_are_placed_by_their_seconds() -> None:
    times = (0.0, 5.0, 10.0)
    lane = [{"at": at, "direction": "received", "kind": "Ask", "bytes": 10} for at in times]
    found = messages(replace(verdicts.full(), messages=transfers_from_json({"left": lane})))
    places = [x for (x,) in numbers(found.pictures[0][1], "rect", "bar received", "x")]
    assert places[1] - places[0] == pytest.approx((WIDTH - 16) / 2, abs=0.2)
    assert len(places) == 3
    assert found.table is not None
    assert found.table.rows == (("left", "Ask", "received", "3", "30 B"),)

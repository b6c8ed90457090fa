"""A forgotten label can be cleared from its owner's table, and nothing of the run holds it then."""

from __future__ import annotations

import hmac
import shutil
import tempfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cli.command_line import contents, nothing_written
from coded import coded
from hypothesis import example, given, settings
from hypothesis import strategies as st

import unlabel as ul
from unlabel import Federation, ForgetSettings
from unlabel.config import AlignSettings, Columns, RunConfig
from unlabel.data import Rows
from unlabel.data.table_files import read_frame
from unlabel.errors import DataError, ForgetError, RunError, SettingsError, UnlabelError
from unlabel.forget.public_set import PublicSet
from unlabel.train.cleared import LabelTable
from unlabel.train.label_record import LABELS, UNKNOWN, LabelRecord, Update
from unlabel.wire import Embed, LocalTransport, Message, Recorder, encode

NAMES = ("boat", "car", "home", "study")
ROWS = 480
KEY = "5a" * 32
OPEN = ForgetSettings(allow_disclosure=True)
CONFIG = """\
active: {table: bank.csv, id: customer, label: loan}
passive: [{name: shop, table: shop.csv, id: customer}]
train: {epochs: 8, public: 12}
"""


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    y = rng.integers(0, len(NAMES), ROWS)
    x = np.round(rng.normal(0, 0.4, (ROWS, 8)) + 2 * np.eye(8)[y], 3)
    ids = [f"C-{number:03d}" for number in range(ROWS)]
    bank = pd.DataFrame({"customer": ids, "loan": np.array(NAMES)[y], "a": x[:, 0], "b": x[:, 4]})
    shop = pd.DataFrame({"customer": ids, **{f"s{n}": x[:, n] for n in (1, 2, 3, 5)}})
    return bank, shop


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    for name, table in zip(("bank", "shop"), tables(), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "run.yaml").write_text(CONFIG)
    Federation.from_file(folder / "run.yaml", folder / "run").train()
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """Give tables and a trained run of one's own, whose settings name these tables."""
    folder = Path(shutil.copytree(trained, tmp_path / "place"))
    path = folder / "run" / "run.yaml"
    path.write_text(path.read_text().replace(str(trained), str(folder)))
    return folder


def run_in(place: Path) -> Federation:
    return Federation.open(place / "run")


def bank_of(place: Path) -> pd.DataFrame:
    return pd.read_csv(place / "bank.csv")


def people_of(federation: Federation, label: str, count: int = 1) -> list[str]:
    """Return some people that were trained on with a label."""
    rows = federation.holdings.rows.train
    chosen = rows[federation.holdings.labels[rows] == NAMES.index(label)][:count]
    return [str(federation.holdings.ids[row]) for row in chosen.tolist()]


def clear(place: Path, chosen: pd.Series, value: str | None) -> None:
    bank = bank_of(place)
    bank.loc[chosen.to_numpy(), "loan"] = value
    bank.to_csv(place / "bank.csv", index=False)


def expect_every_verb(place: Path) -> None:
    """Live on with a run: every verb works, and what was forgotten stays so."""
    federation = run_in(place)
    forgotten = federation.forgotten
    assert federation.evaluate().accuracy > 0.8
    assert "boat" not in federation.predict().labels or not forgotten.labels
    outcome = federation.forget(["study"])
    assert federation.audit().depth in ("answers", "top")
    outcome.rollback()
    federation.purge()
    federation = run_in(place)
    person = people_of(federation, "home")
    federation.forget(ids=person, settings=OPEN).commit()
    assert set(federation.forgotten.labels) == set(forgotten.labels)
    certified = federation.certificate()
    assert ul.verify(certified, run=place / "run").holds
    assert federation.status().together


@pytest.mark.parametrize("value", [None, "car", "nonsense"])
@pytest.mark.parametrize("whole", [True, False])
def test_after_a_commit_the_forgotten_cells_may_be_cleared_and_every_verb_goes_on(
    place: Path, whole: bool, value: str | None
) -> None:
    federation = run_in(place)
    if whole:
        federation.forget(["boat"]).commit()
        chosen = bank_of(place)["loan"] == "boat"
    else:
        person = people_of(federation, "boat")
        federation.forget(ids=person, settings=OPEN).commit()
        chosen = bank_of(place)["customer"] == person[0]
    clear(place, chosen, value)
    assert int((run_in(place).holdings.labels == UNKNOWN).sum()) == int(chosen.sum())
    expect_every_verb(place)


def test_any_other_change_is_noticed_and_named(place: Path) -> None:
    federation = run_in(place)
    person = people_of(federation, "boat")
    federation.forget(ids=person, settings=OPEN).commit()
    bank = bank_of(place)
    other = int(np.flatnonzero(bank["loan"] == "car")[0])
    clear(place, bank["customer"] == bank["customer"][other], None)
    with pytest.raises(RunError, check=coded("labels-changed")) as error:
        run_in(place)
    assert f"'{bank['customer'][other]}'" in str(error.value)
    bank.loc[other, "loan"] = "home"
    bank.to_csv(place / "bank.csv", index=False)
    with pytest.raises(RunError, check=coded("labels-changed")):
        run_in(place)
    bank.drop(index=other).to_csv(place / "bank.csv", index=False)
    with pytest.raises(RunError, check=coded("rows-changed")):
        run_in(place)


def test_before_a_commit_no_cell_may_change(place: Path) -> None:
    run_in(place).forget(["boat"])
    clear(place, bank_of(place)["loan"] == "boat", None)
    with pytest.raises(RunError, check=coded("labels-changed")):
        run_in(place)


def guesses(run: Path) -> list[str]:
    """Try every label on every row with a tombstone, as somebody who has the file can."""
    record = LabelRecord.read(run / "active")
    assert record is not None
    rows = np.flatnonzero(record.tombstones)
    return [
        name
        for row in rows
        for name in record.names
        if hmac.digest(record.keys[row].tobytes(), name.encode(), "sha256")
        == record.commitments[row].tobytes()
    ]


def test_a_purge_destroys_what_a_label_could_be_guessed_by(place: Path) -> None:
    federation = run_in(place)
    people = people_of(federation, "boat", 2) + people_of(federation, "car", 1)
    federation.forget(ids=people, settings=OPEN).commit()
    assert sorted(guesses(place / "run")) == ["boat", "boat", "car"]
    federation.purge()
    assert guesses(place / "run") == []
    record = LabelRecord.read(place / "run" / "active")
    assert record is not None
    assert record.is_purged()
    assert int(record.tombstones.sum()) == 3  # they stay forgotten, by nothing but their number
    assert (federation.active.labels < 0).sum() == 3


def test_of_purged_rows_no_label_is_shown_and_none_is_forgotten_twice(place: Path) -> None:
    federation = run_in(place)
    person = people_of(federation, "boat")[0]
    federation.forget(["boat"]).commit()
    federation.purge()
    predictions = federation.predict(part="train")
    boats = set(tables()[0].query("loan == 'boat'")["customer"])
    shown = dict(zip(predictions.ids.tolist(), predictions.truth or (), strict=True))
    assert {shown[who] for who in boats & set(shown)} == {""}
    with pytest.raises(ForgetError, check=coded("already-forgotten")):
        federation.forget(ids=[person], settings=OPEN)


def test_a_purge_removes_what_references_saw_with_their_labels(place: Path) -> None:
    federation = run_in(place)
    outcome = federation.forget(["boat"])
    federation.audit(retrained=1)
    outcome.commit()
    assert list((place / "run" / "active" / "retrained").rglob("*.safetensors"))
    federation.purge()
    assert not (place / "run" / "active" / "retrained").exists()
    with pytest.raises(ForgetError, check=coded("purged")):
        federation.audit()


def sent_by(federation: Federation, label: str) -> list[tuple[str, bytes]]:
    """Return every message of a hidden request, as bytes."""
    messages: list[tuple[str, bytes]] = []

    class Listening(Recorder):
        def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
            messages.extend((party, encode(message)) for party, message in requests.items())
            return super().exchange(requests)

    federation.active.transport = Listening(federation.active.transport)
    work = federation.plan([label], settings=ForgetSettings(key=KEY))
    messages.clear()
    work.method.run(work)
    return messages


def test_partners_see_the_same_of_a_hidden_request_whether_labels_were_cleared_or_not(
    place: Path, tmp_path: Path
) -> None:
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    other = Path(shutil.copytree(place / "run", tmp_path / "kept"))
    federation.purge()
    clear(place, bank_of(place)["loan"] == "boat", "car")
    cleared = run_in(place)
    assert (cleared.active.labels < 0).any()
    bank = tables()[0]
    bank.to_csv(place / "bank.csv", index=False)  # the other run still has its labels
    kept = Federation.open(other)
    assert not (kept.active.labels < 0).any()
    some, others = sent_by(cleared, "home"), sent_by(kept, "home")
    assert [(party, data[-4000:]) for party, data in some if len(data) > 200]

    def without_id(pairs: list[tuple[str, bytes]]) -> list[tuple[str, int]]:
        return [(party, len(data)) for party, data in pairs]

    assert without_id(some) == without_id(others)
    rows = [[d for _, d in each if b"Embed" in d[:60]] for each in (some, others)]
    assert rows[0] == rows[1]
    # The new top is taught on the same samples, and so is the same.
    tops = [each.active.versions.model_state() for each in (cleared, kept)]
    assert all(torch.equal(tops[0][name], tops[1][name]) for name in tops[0])


def test_noise_is_refused_where_it_would_show_which_labels_were_purged(place: Path) -> None:
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    noisy = ForgetSettings(method="hidden", options={"noise": 1.0})
    federation.plan(["home"], settings=noisy)
    federation.purge()
    with pytest.raises(ForgetError, match="Noise needs the labels of all public samples"):
        federation.plan(["home"], settings=noisy)


def asked_for(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return which rows a hidden request asks the partners for."""
    rows: list[list[int]] = []
    plain = LocalTransport.exchange

    def exchange(self: LocalTransport, requests: Mapping[str, Message]) -> dict[str, Message]:
        first = next(iter(requests.values()))
        rows.extend([first.rows.tolist()] if isinstance(first, Embed) else [])
        return plain(self, requests)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTransport, "exchange", exchange)
        federation.forget(["home"], settings=ForgetSettings(key=KEY)).rollback()
    return rows


@pytest.mark.parametrize("public", [0, 40])
def test_public_samples_stay_the_same_after_labels_were_purged(
    public: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlabel.forget.public_set.MOST", 16)  # fewer than there are
    monkeypatch.setattr(PublicSet.balanced, "__defaults__", (16,))
    bank, shop = tables()
    bank["loan"] += np.where(np.arange(ROWS) % 2, "", "-2")  # eight labels
    frames = {"bank": bank, "shop": shop}
    federation = Federation.from_frames(
        frames, label="loan", id="customer", epochs=4, public=public
    )
    federation.train()
    federation.forget(["boat"]).commit(force=True)
    federation.forget(["car"]).commit(force=True)
    before = asked_for(federation, monkeypatch)
    federation.purge()
    assert (federation.active.labels < 0).sum() == (bank["loan"].isin(["boat", "car"])).sum()
    assert asked_for(federation, monkeypatch) == before
    if not public:
        with pytest.raises(ForgetError, match="cannot be drawn"):
            federation.plan(["home"], settings=ForgetSettings(few_shot=7, retained=7))


@pytest.mark.parametrize(
    "names",
    [
        ("001", "002", "003", "004"),
        ("0.10", "0.20", "0.30", "0.40"),
        ("TRUE", "FALSE", "no idea", "x"),
        ("12345678901234567", "12345678901234568", "12345678901234569", "2"),
        ("café", "thé", "NA ", "null?"),
    ],
)
@pytest.mark.parametrize("value", ["", "erased"])
def test_labels_of_every_kind_survive_what_a_cleared_cell_makes_of_their_column(
    names: tuple[str, ...], value: str, tmp_path: Path
) -> None:
    bank, shop = tables()
    codes = bank["loan"].map(NAMES.index)
    lines = [f"{who},{names[code]}" for who, code in zip(bank["customer"], codes, strict=True)]
    (tmp_path / "bank.csv").write_text("\n".join(["customer,loan", *lines]) + "\n")
    shop.to_csv(tmp_path / "shop.csv", index=False)
    (tmp_path / "run.yaml").write_text(CONFIG.replace("epochs: 8", "epochs: 1"))
    federation = Federation.from_file(tmp_path / "run.yaml", tmp_path / "run")
    federation.train()
    person = str(federation.holdings.ids[federation.holdings.rows.train[0]])
    federation.forget(ids=[person], settings=OPEN).commit(force=True)
    kept = federation.holdings.labels.clone()
    federation.purge(table_out=tmp_path / "cleared.csv")
    cleared = [f"{who}," if who == person else f"{who},{rest}"
               for who, rest in (line.split(",") for line in lines)]  # fmt: skip
    assert (tmp_path / "cleared.csv").read_text().splitlines()[1:] == cleared
    changed = [f"{line}{value}" if line.endswith(",") else line for line in cleared]
    (tmp_path / "bank.csv").write_text("\n".join(["customer,loan", *changed]) + "\n")
    opened = Federation.open(tmp_path / "run").holdings.labels
    assert (opened != kept).sum() == 1
    assert int((opened == UNKNOWN).sum()) == 1


@pytest.mark.parametrize("kind", ["float32", "datetime64[s]", "bool", "category", "Int64"])
def test_tables_from_python_of_every_kind_of_label_are_read_again(
    kind: str, tmp_path: Path
) -> None:
    bank, shop = tables()
    codes = bank["loan"].map(NAMES.index) % (2 if kind == "bool" else 4)
    values = codes / 10 if kind == "float32" else codes
    bank["loan"] = values.astype(kind)  # type: ignore[call-overload]
    Federation.from_frames(
        {"bank": bank, "shop": shop}, label="loan", id="customer", folder=tmp_path / "run", epochs=1
    ).train()
    federation = Federation.open(tmp_path / "run")
    assert not (federation.holdings.labels < 0).any()
    person = str(federation.holdings.ids[federation.holdings.rows.train[0]])
    federation.forget(ids=[person], settings=OPEN).commit(force=True)
    known = federation.holdings.labels.clone()
    known[(federation.holdings.ids == person).nonzero()[0]] = UNKNOWN
    federation.purge()
    assert torch.equal(Federation.open(tmp_path / "run").holdings.labels, known)


def test_dates_are_kept_to_the_fraction_of_a_second_where_one_is_cleared(tmp_path: Path) -> None:
    days = pd.Series(pd.to_datetime([f"2020-01-0{n}T00:00:00.250001" for n in (1, 2, 1, 3)]))
    path, target = tmp_path / "t.parquet", tmp_path / "cleared.parquet"
    pd.DataFrame({"id": list("abcd"), "day": days}).to_parquet(path)
    record = record_of(list("abcd"), [0, 1, 0, 2], ("x", "y", "z")).buried(np.arange(4) == 1)
    LabelTable(path, "id", "day").write(record, (), target)
    cleared = pd.read_parquet(target)["day"]
    assert cleared.isna().tolist() == [False, True, False, False]
    assert cleared.drop(1).tolist() == days.drop(1).tolist()


# --- the owner's table, and other copies -----------------------------------------------------


def test_a_purge_writes_the_table_without_the_forgotten_cells(place: Path) -> None:
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    with nothing_written(place):
        for wrong in ("bank.csv", "bank.parquet"):
            with pytest.raises(SettingsError):
                federation.purge(table_out=place / wrong)
    federation.purge(table_out=place / "cleared.csv")
    before, after = ((place / name).read_text() for name in ("bank.csv", "cleared.csv"))
    assert after.splitlines() == [
        line.replace(",boat,", ",,") for line in before.splitlines()
    ]  # every other cell to the letter
    shutil.copy(place / "cleared.csv", place / "bank.csv")
    expect_every_verb(place)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_cleared_table_is_in_the_encoding_of_the_table(place: Path, encoding: str) -> None:
    bank = place / "bank.csv"
    bank.write_bytes(bank.read_text().encode(encoding))
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    federation.purge(table_out=place / "cleared.csv")
    lines = (place / "cleared.csv").read_bytes().decode(encoding).splitlines()
    assert lines[0] == bank.read_bytes().decode(encoding).splitlines()[0]
    assert (place / "cleared.csv").read_bytes()[:2] == bank.read_bytes()[:2]


@pytest.mark.parametrize("kind", ["supervised", "blind"])
def test_every_file_that_still_names_the_label_is_listed(
    kind: str, place: Path, tmp_path: Path
) -> None:
    federation = run_in(place)
    if kind == "blind":
        federation = Federation.from_frames(
            dict(zip(("bank", "shop"), tables(), strict=True)),
            label="loan",
            id="customer",
            folder=tmp_path / "run",
            bottoms="blind",
            fit=ul.FitSettings(epochs=2),
        )
        federation.train()
    federation.forget(["boat"]).commit(force=True)
    federation.purge()
    naming = {
        path.relative_to(federation.folder).as_posix()
        for path in federation.folder.rglob("*")
        if path.is_file() and b"boat" in path.read_bytes()
    }
    listed = {each.place for each in federation.copies() if each.state != "cleared"}
    unlisted = {each for each in naming if not any(each.startswith(place) for place in listed)}
    assert "active/ledger.jsonl" in naming
    assert unlisted == set()


def test_a_table_that_cannot_be_written_stops_the_purge(place: Path) -> None:
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    with nothing_written(place), pytest.raises(RunError):
        federation.purge(table_out=place / "bank.csv" / "cleared.csv")
    outcome = federation.forget(["home"])  # a request that waits stops a purge
    with nothing_written(place), pytest.raises(ForgetError, check=coded("request-open")):
        federation.purge(table_out=place / "cleared.csv")
    outcome.rollback()
    text = (place / "bank.csv").read_text().splitlines()
    odd = [text[0], "   ", *text[1:4], "", *text[4:]]  # lines that a reader of tables passes over
    (place / "bank.csv").write_text("\n".join(odd) + "\n\n")
    run_in(place).purge(table_out=place / "cleared.csv")
    assert "boat" not in (place / "cleared.csv").read_text()
    shutil.copy(place / "cleared.csv", place / "bank.csv")
    assert run_in(place).evaluate().accuracy > 0.8


def record_of(ids: list[str], labels: list[int], names: tuple[str, ...]) -> LabelRecord:
    rows = Rows(torch.arange(len(ids)), torch.arange(0), torch.arange(0))
    return LabelRecord.of(np.array(ids), torch.tensor(labels), names, rows, AlignSettings())


FIELDS = st.sampled_from(["x", "", " ", "1.0", "NA", "\u00a0", '""""', '"a,b"', '"a\nb"', '"a\rb"'])
LINES = st.one_of(
    st.tuples(FIELDS, FIELDS, st.sampled_from(["x", "yes", ""])).map(",".join),
    st.sampled_from(["", " ", "\t ", ",,", '""', '" "', "\u00a0", "x", ", ,"]),
)


@settings(max_examples=60, deadline=None)
@example(lines=['x,"a\rb",x'], chosen=0)
@given(lines=st.lists(LINES, min_size=1, max_size=8), chosen=st.integers(0, 7))
def test_a_table_is_cleared_in_the_row_that_the_run_means_or_not_at_all(
    lines: list[str], chosen: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "t.csv", Path(folder) / "cleared.csv"
        path.write_text("\n".join(["", "a,b,loan", *lines, "x,x,x", " ", ""]), newline="")
        before = read_frame(path, texts=["loan"])
        row = chosen % len(before)
        count = len(before)
        record = record_of(list(map(str, range(count))), [0] * count, ("x",))
        record = record.buried(np.arange(count) == row)
        try:
            LabelTable(path, "", "loan").write(record, (), target)
        except DataError:
            assert not target.exists()
            return
        before.loc[row, "loan"] = None
        pd.testing.assert_frame_equal(read_frame(target, texts=["loan"]), before)


@pytest.mark.parametrize("odd", ["  ", "\t", ",,", '""'])
def test_a_line_without_a_label_does_not_move_what_is_cleared(odd: str, tmp_path: Path) -> None:
    lines = tables()[0][["a", "b", "loan"]].to_csv(index=False).splitlines()
    path, target = tmp_path / "whole.csv", tmp_path / "cleared.csv"
    path.write_text("\n".join([*lines[:4], odd, *lines[4:], " "]) + "\n")
    columns = Columns(label="loan", missing="mean")
    config = RunConfig(data=str(path), bottoms="blind", columns=columns, parties=2)
    federation = Federation.create(config, tmp_path / "run")
    federation.train()
    federation.forget(ids=["9"]).commit()
    if odd == '""':  # a row to one reader, and none to another
        with nothing_written(tmp_path), pytest.raises(DataError, match="which of its lines"):
            federation.purge(table_out=target)
        return
    federation.purge(table_out=target)
    kept = pd.read_csv(path)
    kept.loc[9, "loan"] = None
    pd.testing.assert_frame_equal(pd.read_csv(target), kept)


@pytest.mark.parametrize(
    "names", [("1", "01"), ("1", "1.0"), ("a b", "a  b"), ("\u00e9", "e\u0301")]
)
def test_labels_that_differ_only_in_how_they_are_written_begin_no_run(
    names: tuple[str, str], tmp_path: Path
) -> None:
    bank, shop = tables()
    bank["loan"] = bank["loan"].replace(dict(zip(("boat", "car"), names, strict=True)))
    frames = {"bank": bank, "shop": shop}
    with nothing_written(tmp_path), pytest.raises(DataError, match="how they are written"):
        Federation.from_frames(frames, label="loan", id="customer", folder=tmp_path / "run")
    bank[["loan", "a", "b"]].to_csv(tmp_path / "whole.csv", index=False)
    config = RunConfig(data=str(tmp_path / "whole.csv"), columns=Columns(label="loan"), parties=2)
    with nothing_written(tmp_path), pytest.raises(DataError, match="how they are written"):
        Federation.create(config, tmp_path / "run")


def test_a_run_that_has_such_labels_already_clears_one_and_keeps_the_other(tmp_path: Path) -> None:
    names, ids, labels = ("01", "1", "2"), np.array(list("abcdef")), [0, 1, 2, 0, 1, 2]
    record = record_of(ids.tolist(), labels, names).buried(np.array(labels) == 1)
    cells = [names[label] for label in labels]
    path, target = tmp_path / "t.csv", tmp_path / "cleared.csv"
    table = pd.DataFrame({"id": [*ids, "g", "h"], "loan": [*cells, "1", "01"]})  # two elsewhere
    table.to_csv(path, index=False)
    LabelTable(path, "id", "loan").write(record, ["1"], target)
    kept = [*("" if cell == "1" else cell for cell in cells), "", "01"]
    assert read_frame(target, "id", ["loan"])["loan"].fillna("").tolist() == kept
    assert LabelTable(target, "id", "loan").cells_left(record, ["1"]) == 0
    assert record.open(ids, kept[:6]).tolist() == [0, UNKNOWN, 2, 0, UNKNOWN, 2]
    codes, known = Update(record, frozenset(["1"])).labels(ids, cells)
    assert (codes.tolist(), known) == ([0, UNKNOWN, 2, 0, UNKNOWN, 2], names)
    with pytest.raises(DataError, match="how they are written"):
        Update(record, frozenset()).labels(ids, ["3", "03", "03", "3", "1", "2"])


def test_the_runs_own_copy_of_a_table_from_python_is_cleared_too(tmp_path: Path) -> None:
    bank, shop = tables()
    bank["loan"] = bank["loan"].map(NAMES.index)  # whole numbers, which a gap would make fractions
    federation = Federation.from_frames(
        {"bank": bank, "shop": shop}, label="loan", id="customer", folder=tmp_path / "run", epochs=4
    )
    federation.train()
    federation.forget([0]).commit(force=True)
    federation.purge()
    stored = next((tmp_path / "run" / "active").glob("table.*"))
    assert stored.suffix == ".parquet"
    assert int(pd.read_parquet(stored)["loan"].isna().sum()) == int((bank["loan"] == 0).sum())
    opened = Federation.open(tmp_path / "run")
    assert opened.labels == ("0", "1", "2", "3")
    assert not [each for each in opened.copies() if each.state == "left"]


def test_every_copy_is_listed_until_it_is_cleared(place: Path) -> None:
    federation = run_in(place)
    outcome = federation.forget(["boat"])
    federation.audit(retrained=1)
    outcome.commit()
    left = {each.place for each in federation.copies() if each.state == "left"}
    assert left == {
        *(f"active/{LABELS}", "active/retrained", str(place / "bank.csv")),
        *("active/versions", "shop/versions"),
    }
    federation.purge(table_out=place / "cleared.csv")
    federation.certificate()
    federation.report()
    left = {each.place for each in federation.copies() if each.state == "left"}
    assert left == {str(place / "bank.csv")}
    shutil.move(place / "cleared.csv", place / "bank.csv")
    places = run_in(place).copies()
    assert {each.state for each in places} == {"cleared", "kept"}
    assert all(each.why for each in places if each.state == "kept")
    # Nothing that holds the label's name is missing from the list.
    listed = {each.place for each in places if each.state == "kept"}
    naming = {
        path.relative_to(place / "run").as_posix()
        for path in (place / "run").rglob("*")
        if path.is_file() and b'"boat"' in path.read_bytes()
    }
    known = {name for name in naming if any(name.startswith(place) for place in listed)}
    assert naming - known <= {
        "active/versions/" + p.name for p in (place / "run" / "active" / "versions").iterdir()
    }


# --- nothing is learned again by accident ----------------------------------------------------


def test_a_run_that_forgot_is_not_overwritten_without_a_word_that_is_recorded(place: Path) -> None:
    federation = run_in(place)
    request = federation.forget(["boat"])
    request.commit()
    with nothing_written(place), pytest.raises(RunError, check=coded("has-forgotten")):
        Federation.from_file(place / "run.yaml", place / "run", overwrite=True)
    other = Federation.from_file(place / "run.yaml", place / "run", overwrite="forgotten")
    lines = other.ledger()["active"]
    assert [line.event for line in lines] == ["overwrite"]
    assert lines[0].note["requests"] == [request.result.request]
    with pytest.raises(RunError, check=coded("has-forgotten")):  # and so it stays
        Federation.from_file(place / "run.yaml", place / "run", overwrite=True)


def test_what_was_forgotten_stays_so_when_tables_change_and_bring_it_back(place: Path) -> None:
    federation = run_in(place)
    person = people_of(federation, "home")[0]
    federation.forget(["boat"]).commit()
    federation.forget(ids=[person], settings=OPEN).commit()
    federation.purge()
    requests = [line.request for line in federation.ledger()["active"]]
    version = federation.version
    bank, shop = tables()
    new = [f"N-{number}" for number in range(60)]
    more = pd.DataFrame({"customer": new, "loan": ["boat", "farm"] * 30, "a": 5.0, "b": 5.0})
    many = pd.concat([bank.iloc[40:], more])
    many.to_csv(place / "bank.csv", index=False)
    rows = shop.iloc[:60].assign(customer=new)
    pd.concat([shop.iloc[40:], rows]).to_csv(place / "shop.csv", index=False)
    with nothing_written(place), pytest.raises(ForgetError, match="allow_disclosure"):
        Federation.update(place / "run")
    updated, _ = Federation.update(place / "run", allow_disclosure=True)
    assert sorted(path.name for path in place.iterdir()) == sorted(
        ["bank.csv", "run", "run.yaml", "shop.csv"]
    )
    assert updated.labels == (*NAMES, "farm")
    assert updated.forgotten.labels == (0,)
    past = updated.holdings.ids[(updated.holdings.labels == UNKNOWN).numpy()]
    assert set(past) == {*many["customer"][many["loan"] == "boat"], person} & set(many["customer"])
    assert "boat" not in updated.predict(part="train").labels
    assert updated.version is not None
    assert version is not None
    assert updated.version > version
    ledger = updated.ledger()["active"]
    assert [line.request for line in ledger][: len(requests)] == requests
    assert ledger[-1].event == "update"
    expect_every_verb(place)
    # Somebody who was removed, and comes back later, is still remembered.
    bank.to_csv(place / "bank.csv", index=False)
    shop.to_csv(place / "shop.csv", index=False)
    whole, _ = Federation.update(place / "run", allow_disclosure=True)
    past = whole.holdings.ids[(whole.holdings.labels == UNKNOWN).numpy()]
    assert {*bank["customer"][bank["loan"] == "boat"], person} <= set(past)


def test_what_was_forgotten_does_not_come_back_in_another_spelling(tmp_path: Path) -> None:
    bank, shop = tables()
    bank["loan"] = bank["loan"].map(NAMES.index)
    ids = bank["customer"].map(lambda who: f"José {who}")
    frames = {"bank": bank.assign(customer=ids), "shop": shop.assign(customer=ids)}
    run = tmp_path / "run"
    federation = Federation.from_frames(
        frames, label="loan", id="customer", folder=run, epochs=2, public=12
    )
    federation.train()
    person = str(federation.holdings.ids[federation.holdings.rows.train[
        federation.holdings.labels[federation.holdings.rows.train] == 1
    ][0]])  # fmt: skip
    federation.forget([0]).commit(force=True)
    federation.forget(ids=[person], settings=OPEN).commit(force=True)
    texts = bank["loan"].map({0: "+00", 1: "1.0", 2: "2", 3: "03"})
    other = ids.map(lambda text: unicodedata.normalize("NFD", text))
    frames = {"bank": bank.assign(customer=other, loan=texts), "shop": shop.assign(customer=other)}
    updated, _ = Federation.update(run, frames=frames, allow_disclosure=True)
    assert updated.labels == ("0", "1", "2", "3")
    past = set(updated.holdings.ids[(updated.holdings.labels == UNKNOWN).numpy()])
    assert unicodedata.normalize("NFD", person) in past
    assert len(past) == int((bank["loan"] == 0).sum()) + 1


@pytest.mark.parametrize("bottoms", ["blind", "supervised"])
def test_a_person_is_found_however_the_request_writes_the_id(bottoms: str) -> None:
    bank, shop = tables()
    frames = {
        name: table.assign(customer=table["customer"].map(lambda who: f"Jos\u00e9 {who}"))
        for name, table in (("bank", bank), ("shop", shop))
    }
    kind: Any = {"bottoms": "blind"} if bottoms == "blind" else {"epochs": 1}
    federation = Federation.from_frames(frames, label="loan", id="customer", **kind)
    federation.train()
    person = str(federation.holdings.ids[federation.holdings.rows.train[0]])
    other = f" {unicodedata.normalize('NFD', person)}"
    assert federation.defer([other], "2999-12-31").people == (person,)
    with pytest.raises(SettingsError, match="waits already"):
        federation.defer([f"{person} "], "2999-12-31")
    with pytest.raises(ForgetError):  # case counts unless the parties say otherwise
        federation.defer([person.upper()], "2999-12-31")


def test_an_update_keeps_the_evidence_of_earlier_requests(place: Path) -> None:
    federation = run_in(place)
    outcome = federation.forget(["boat"])
    federation.audit()
    outcome.commit()
    federation.purge()
    certified = federation.certificate()
    updated, _ = Federation.update(place / "run", allow_disclosure=True)
    assert ul.verify(certified.path, run=place / "run").holds
    assert updated.report().verdict.request == outcome.result.request


def test_a_purge_within_slots_lets_go_of_labels_in_the_running_process_too(place: Path) -> None:
    federation = run_in(place)
    federation.queue(["boat"])
    (slot,) = federation.slots(every=0, count=1, purge=True, pace=0)
    assert slot.kept
    assert (federation.active.labels == UNKNOWN).sum() == (tables()[0]["loan"] == "boat").sum()


def test_an_update_that_is_interrupted_between_two_renames_is_finished(place: Path) -> None:
    run = place / "run"
    run_in(place).forget(["boat"]).commit()
    Federation.update(run, allow_disclosure=True)
    updated = contents(run)
    run.rename(place / ".run.update")  # as a crash would leave it
    (place / ".run.before").mkdir()
    assert "boat" in run_in(place).status().forgotten_labels
    assert contents(run) == updated
    assert not (place / ".run.before").exists()


def test_a_person_can_wait_for_the_next_full_training_and_shows_nothing_until_then(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = run_in(place)
    federation.forget(["boat"]).commit()
    people = people_of(federation, "car", 2)
    with pytest.raises(ForgetError, match="`defer`"):
        federation.forget(ids=people)
    sent: list[Message] = []
    plain = LocalTransport.exchange

    def exchange(self: LocalTransport, requests: Mapping[str, Message]) -> dict[str, Message]:
        sent.extend(requests.values())
        return plain(self, requests)

    monkeypatch.setattr(LocalTransport, "exchange", exchange)
    entry = federation.defer(people, "2999-12-31")
    assert sent == []
    line = federation.ledger()["active"][-1]
    assert (line.event, line.note["until"]) == ("defer", "2999-12-31")
    assert line.note["people"] == list(entry.people)
    assert [each.event for each in federation.ledger()["shop"]] == ["commit"]
    for wrong, day in ((people, "2999-12-31"), (people_of(federation, "home"), "1999-01-01")):
        with nothing_written(place), pytest.raises(UnlabelError):
            federation.defer(wrong, day)
    updated, _ = Federation.update(place / "run", allow_disclosure=True)
    past = set(updated.holdings.ids[(updated.holdings.labels == UNKNOWN).numpy()])
    assert set(people) <= past
    assert updated.ledger()["active"][-1].note["deferred"] == [entry.request]
    assert not (place / "run" / "active" / "secrets" / "deferred.json").exists()

"""What a server answers: what the run predicts, its version, and no forgotten label."""

from __future__ import annotations

import logging
import socket

import numpy as np
import pytest
from blind_runs import cells, tables

from serve.conftest import MakeRun
from serve.served import KINDS, LABEL, MANY, TRUTH, Client, new_rows, serving
from unlabel import Federation
from unlabel.serve import Limits
from unlabel.serve.listening import Address


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_the_predictions_of_the_run(kind: str, a_run: MakeRun) -> None:
    folder = a_run(kind)
    run = Federation.open(folder)
    part = run.predict(part="test")
    frames = {
        party: {k: v[:7] for k, v in t.items() if k != TRUTH}
        for party, t in tables(cells()).items()
    }
    fresh = run.predict(tables=frames)
    with serving(folder) as client:
        by_ids = client.ask({"ids": part.ids.tolist()})
        by_rows = client.ask({"rows": new_rows(7)})
    for reply, expected in ((by_ids, part), (by_rows, fresh)):
        assert reply.status == 200, reply.body
        assert reply.body["labels"] == list(expected.names)
        answers = reply.body["predictions"]
        assert [each["id"] for each in answers] == expected.ids.tolist()
        assert [each["label"] for each in answers] == list(expected.labels)
        given = np.array([each["probabilities"] for each in answers])
        np.testing.assert_allclose(given, expected.probabilities, atol=1e-6)
        assert (reply.body["version"], reply.body["request"]) == (run.version, "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_forgotten_label_is_no_answer_and_the_version_is_named(kind: str, a_run: MakeRun) -> None:
    folder = a_run(kind, staged=True)
    with serving(folder) as client:
        before = client.ask({"ids": MANY})
        run = Federation.open(folder)
        request = run.commit(force=True)
        after = client.ask({"ids": MANY})
        rows = client.ask({"rows": new_rows(3)})
        run.purge()
        purged = client.ask({"ids": MANY})
        health = client.send("GET", "/healthz")
    assert LABEL in before.body["labels"]
    assert before.body["version"] < after.body["version"] == purged.body["version"] == run.version
    assert health.body == {"status": "ok", "version": run.version}
    assert after.body["predictions"] == purged.body["predictions"]
    for reply in (after, rows, purged):
        assert reply.body["labels"] == ["alder", "beech"]
        assert reply.body["request"] == request
        for each in reply.body["predictions"]:
            assert each["label"] in ("alder", "beech")
            assert sum(each["probabilities"]) == pytest.approx(1, abs=1e-5)
    heads = [entry.hash[:16] for entry in run.ledger()["active"]]
    assert after.body["ledger"] in heads


def test_ids_that_are_not_known_are_named_and_the_others_answered(a_run: MakeRun) -> None:
    with serving(a_run()) as client:
        some = client.ask({"ids": ["nobody", "P001", "P001"]})
        none = client.ask({"ids": ["nobody"]})
    assert [each["id"] for each in some.body["predictions"]] == ["P001", "P001"]
    assert some.body["unknown"] == ["nobody"]
    assert (none.status, none.code) == (404, "unknown-ids")


def test_rows_are_held_to_the_columns_of_the_run(a_run: MakeRun) -> None:
    def changed(**cells: object) -> dict[str, object]:
        rows = new_rows(2)
        rows["shop"][1] |= cells
        return {"rows": rows}

    lacking = new_rows(1)
    del lacking["shop"][0]["s2"]
    with serving(a_run()) as client:
        wrong = [
            client.ask(question)
            for question in (
                changed(more=1),
                {"rows": lacking},
                {"rows": {**new_rows(1), "spa": [{"id": "P000"}]}},
                {"rows": {**new_rows(1), "shop": []}},
                changed(s2="many"),
                changed(s2=1e300),
            )
        ]
        gap = client.ask(changed(s2=None))
    for reply in wrong:
        assert reply.status == 422, reply.body
        assert reply.code in ("data", "settings")
    assert gap.status == 200


def test_a_run_of_a_dataset_answers_by_ids_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = Federation.local("digits", parties=2, model="mlp", epochs=1)  # in no folder of the user's
    run.train()
    expected = run.predict()
    with serving(run) as client:
        reply = client.ask({"ids": expected.ids[:5].tolist()})
        rows = client.ask({"rows": {"passive-1": [{"x": 1}]}})
    assert [each["label"] for each in reply.body["predictions"]] == list(expected.labels[:5])
    assert (rows.status, rows.code) == (422, "settings")


HUGE = b'{"ids": ["' + b"x" * 9000 + b'"]}'


def test_whatever_is_malformed_gets_one_sentence_and_a_code(a_run: MakeRun) -> None:
    deep = b"[" * 4000 + b"]" * 4000
    cases: list[tuple[bytes, int, str]] = [
        (b"", 422, "malformed"),
        (b"{", 422, "malformed"),
        (b"\xff\xfe", 422, "malformed"),
        (deep, 400, "malformed"),
        (b"[]", 422, "malformed"),
        (b"{}", 422, "malformed"),
        (b'{"ids": ["a"], "rows": {}}', 422, "malformed"),
        (b'{"ids": [1.5]}', 422, "malformed"),
        (b'{"ids": [true]}', 422, "malformed"),
        (b'{"ids": [""]}', 422, "malformed"),
        (b'{"ids": ["a"], "part": "train"}', 422, "malformed"),
        (b'{"rows": {"shop": [{"id": "a", "s1": NaN}]}}', 422, "malformed"),
        (b'{"rows": {"shop": [{"id": "a", "s1": [1]}]}}', 422, "malformed"),
        (b'{"ids": [9007199254740993]}', 422, "malformed"),
        (b'{"ids": ["a", "b", "c", "d", "e"]}', 413, "too-large"),
        (HUGE, 413, "too-large"),
    ]
    with serving(a_run(), limits=Limits(rows=4, body=9000)) as client:
        for body, status, code in cases:
            reply = client.send("POST", "/predict", body)
            assert (reply.status, reply.code) == (status, code), (body[:60], reply.body)
        plain = client.send("POST", "/predict", b'{"ids": ["P001"]}', content_type="text/plain")
        assert (plain.status, plain.code) == (422, "malformed")
        assert client.send("GET", "/predict").code == "no-such-route"
        assert client.send("GET", "/docs").status == 404
        assert client.send("GET", "/../etc/passwd").code == "no-such-route"
        assert client.ask({"ids": ["P001"]}).status == 200


def test_a_request_of_unknown_length_is_bounded_too(a_run: MakeRun) -> None:
    import http.client

    with serving(a_run(), limits=Limits(body=2000)) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        pieces = iter([b'{"ids": ["'] + [b"x" * 500] * 10 + [b'"]}'])
        headers = {"content-type": "application/json"}
        connection.request("POST", "/predict", pieces, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()


def test_a_request_that_does_not_arrive_is_given_up(a_run: MakeRun) -> None:
    import socket

    with serving(a_run(), limits=Limits(reading=0.2)) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as slow:
            slow.sendall(
                b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 20\r\n\r\n{"
            )
            assert b" 408 " in slow.recv(1000).split(b"\r\n")[0] + b" "
        assert client.ask({"ids": ["P001"]}).status == 200


def test_a_token_is_asked_for_everywhere_but_for_health(a_run: MakeRun) -> None:
    with serving(a_run(), token="a token of some length") as client:
        question = {"ids": ["P001"]}
        assert client.ask(question).status == 200
        for wrong in ("", "Bearer", "Bearer other", "Basic a token of some length", "Bearer é"):
            for verb, path in (("POST", "/predict"), ("GET", "/metrics"), ("GET", "/openapi.json")):
                body = b'{"ids": ["P001"]}' if verb == "POST" else None
                reply = client.send(verb, path, body, authorization=wrong)
                assert (reply.status, reply.code) == (401, "unauthorised")
        assert Client(client.port).send("GET", "/healthz").status == 200


def test_a_page_of_another_name_is_not_answered(a_run: MakeRun) -> None:
    with serving(a_run()) as client:
        reply = client.ask({"ids": ["P001"]}, host="evil.example:8080")
        assert (reply.status, reply.code) == (421, "other-host")
        assert client.ask({"ids": ["P001"]}, host=f"localhost:{client.port}").status == 200


def test_metrics_count_requests_and_rows(a_run: MakeRun) -> None:
    with serving(a_run()) as client:
        client.ask({"ids": MANY})
        client.ask({"ids": ["nobody"]})
        client.send("GET", "/made/up")
        text = client.send("GET", "/metrics").body["text"]
    for line in (
        'unlabel_serve_requests_total{route="/predict",status="200"} 1.0',
        'unlabel_serve_requests_total{route="/predict",status="404"} 1.0',
        'unlabel_serve_requests_total{route="other",status="404"} 1.0',
        f"unlabel_serve_rows_total {float(len(MANY))}",
        "unlabel_serve_version 1.0",
        "unlabel_serve_seconds_count 2.0",
    ):
        assert line in text.splitlines()


def test_no_id_and_no_label_stands_in_the_log(
    a_run: MakeRun, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("P001 is cedar")

    with caplog.at_level(logging.DEBUG), serving(a_run()) as client:
        client.ask({"ids": ["P001", "somebody"]})
        client.ask({"rows": {**new_rows(1), "shop": [{"id": "P001", "cedar": 1}]}})
        client.send("GET", "/P001/cedar?P001=cedar")
        monkeypatch.setattr(Federation, "predict_rows", fail)
        broken = client.ask({"ids": ["P001"]})
    assert (broken.status, broken.code) == (500, "internal")
    assert "P001" not in str(broken.body)
    assert "POST /predict 200" in caplog.text
    assert "ValueError at" in caplog.text
    for word in ("P001", "somebody", *("alder", "beech", "cedar")):
        assert word not in caplog.text


def test_no_path_that_was_asked_for_stands_in_the_log(
    a_run: MakeRun, caplog: pytest.LogCaptureFixture
) -> None:
    forged = "/P001%0a2026-10-19%20POST%20/predict%20200%203.1%20ms"
    with caplog.at_level(logging.INFO), serving(a_run(), token="a token of some length") as client:
        statuses = [
            Client(client.port).send("GET", forged).status,
            client.send("GET", forged, host="evil.example").status,
            client.send("GET", forged).status,
            client.send("GET", "/predict").status,
            client.ask({"ids": ["nobody"]}).status,
        ]
    assert statuses == [401, 421, 404, 405, 404]
    lines = [each.getMessage() for each in caplog.records if each.name == "unlabel.serve"]
    assert [line.rsplit(" ", 2)[0] for line in lines] == [
        *("GET - 401", "GET - 421", "GET - 404"),
        *("GET /predict 405", "POST /predict 404"),
    ]


def test_no_part_of_an_answer_waits_until_the_one_before_is_acknowledged() -> None:
    with Address(port=0).listen() as listener:
        asking = socket.create_connection(listener.getsockname()[:2])
        connection, _ = listener.accept()
        with asking, connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

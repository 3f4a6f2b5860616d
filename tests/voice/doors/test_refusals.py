"""What is said to who is not let in."""

import json

import pytest

from voice.admission import Reason, Refusal
from voice.doors.refusals import POSITION_HEADER, Answer, answer_to, without_paths


def test_a_refusal_is_an_error_of_openai_s_shape_with_the_place_and_the_time() -> None:
    response = answer_to(Refusal(Reason.SERVER_FULL, 3, 12), most=24).response()
    error = json.loads(bytes(response.body))["error"]
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "12"
    assert response.headers[POSITION_HEADER] == "3"
    assert error == {
        "message": "All 24 calls are taken. You would be number 3 of those who wait."
        " Try again in 12 s.",
        "type": "server_error",
        "param": None,
        "code": "server_full",
        "queue_position": 3,
    }


def test_where_nobody_waits_there_is_no_place() -> None:
    response = answer_to(Refusal(Reason.CLOSING, 0, 5), most=24).response()
    error = json.loads(bytes(response.body))["error"]
    assert POSITION_HEADER not in response.headers
    assert (error["code"], error["message"]) == (
        "shutting_down", "The server is shutting down. Try again in 5 s."
    )  # fmt: skip
    assert "queue_position" not in error


def test_a_mistake_of_the_client_s_is_not_to_be_tried_again() -> None:
    response = Answer(401, "invalid_api_key", "No.").response()
    assert "Retry-After" not in response.headers
    assert json.loads(bytes(response.body))["error"]["type"] == "invalid_request_error"


def test_who_asks_too_often_is_told_so_in_openai_s_words() -> None:
    response = Answer(429, "rate_limit_exceeded", "Too often.", retry_s=3).response()
    error = json.loads(bytes(response.body))["error"]
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")


def test_one_call_is_not_several() -> None:
    answer = answer_to(Refusal(Reason.SERVER_FULL, 0, 5), most=1)
    assert answer.message == "The one call is taken. Try again in 5 s."


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        ("run `/opt/venv/bin/python -m pip install x`", "run `…/python -m pip install x`"),
        ("not in /root/.cache/antiphon/models: pull", "not in …/models: pull"),
        ("~/models/whisper/a.bin is damaged", "…/a.bin is damaged"),
        ("POST /v1/audio/speech, and/or http://there:1/v1/models", ""),
        ("32 kbit/s, text/event-stream, 1/2", ""),
    ],
)
def test_strangers_do_not_read_where_files_are(whole: str, told: str) -> None:
    assert without_paths(whole) == (told or whole)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words_and_an_event(reason: Reason) -> None:
    answer = answer_to(Refusal(reason, 1, 5), most=7)
    event = json.loads(answer.event())
    assert (event["type"], event["error"]["type"]) == ("error", "server_error")
    assert event["error"]["code"] == reason.value
    assert event["error"]["message"] == answer.message
    assert "{" not in answer.message

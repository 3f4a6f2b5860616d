"""Token ids out of streamed completions, wherever those are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.ports import EngineError
from engines.tokens.completions_wire import TokenReader, request_body, server_of
from engines.tokens.ports import TokenRequest

STOP = 128_258
REQUEST = TokenRequest((128_259, 128_000, 7), 700, STOP, temperature=0.5, top_p=0.7, seed=11)


def event(text="", ids=None, finish=None, **more):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


END = event(finish="stop") + b"data: [DONE]\n\n"


def read(data, cuts=()):
    reader, tokens = TokenReader(STOP), []
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        tokens += reader.feed(data[start:end])
    tokens += reader.finish()
    return tokens


def body(server, request=REQUEST, **extra):
    return json.loads(request_body(request, "orpheus", server, extra))


# --- what is sent ---------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["vllm", "trtllm", "llama.cpp"])
def test_every_server_gets_the_prompt_as_ids_and_the_sampling(server):
    sent = body(server)
    assert sent["prompt"] == [128_259, 128_000, 7]
    assert (sent["model"], sent["stream"], sent["max_tokens"]) == ("orpheus", True, 700)
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.7)
    assert 0 <= sent["seed"] < 2**31


def test_each_server_gets_its_own_names_and_no_other_s():
    vllm, trtllm, llama = body("vllm"), body("trtllm"), body("llama.cpp")
    assert vllm["repetition_penalty"] == trtllm["repetition_penalty"] == 1.1
    assert vllm["stop_token_ids"] == trtllm["stop_token_ids"] == [STOP]
    assert vllm["return_token_ids"] is True
    assert trtllm["detokenize"] is False
    assert "return_token_ids" not in trtllm
    assert llama["repeat_penalty"] == 1.1
    assert llama["stop"] == ["<custom_token_2>"]
    assert (llama["top_k"], llama["min_p"], llama["repeat_last_n"]) == (0, 0.0, -1)
    assert "repetition_penalty" not in llama


def test_extra_fields_go_over_ours():
    sent = body("vllm", priority=3, top_p=0.9)
    assert (sent["priority"], sent["top_p"]) == (3, 0.9)


def test_going_on_from_tokens_draws_other_lots_than_the_beginning():
    further = TokenRequest((*REQUEST.prompt, 130_000), 700, STOP, seed=11)
    assert body("vllm")["seed"] == body("llama.cpp")["seed"] != body("vllm", further)["seed"]


@pytest.mark.parametrize(
    ("owner", "server"),
    [("vllm", "vllm"), ("tensorrt_llm", "trtllm"), ("llamacpp", "llama.cpp"), ("", "vllm")],
)
def test_a_server_is_known_by_whom_its_models_belong_to(owner, server):
    assert server_of(owner) == server


# --- what comes back ------------------------------------------------------------------------

ids_lists = st.lists(st.integers(128_256 + 3, 156_939), max_size=30)


def text_of(ids):
    return "".join(f"<custom_token_{token - 128_256}>" for token in ids)


@given(ids_lists, st.data())
def test_text_is_read_wherever_events_and_bytes_are_cut(ids, data):
    text = text_of(ids)
    text_cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    parts = [text[a:b] for a, b in pairwise([0, *sorted(text_cuts), len(text)])]
    stream = b"".join(event(part) for part in parts) + END
    byte_cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    assert read(stream, byte_cuts) == ids


def test_other_text_between_tokens_is_passed_over():
    stream = event("<|eot_id|> hm <custom_token_12> < <cus") + event("tom_token_13>x") + END
    assert read(stream) == [128_268, 128_269]


def test_ids_are_taken_where_they_are_given_and_the_text_is_not_read_twice():
    stream = (
        event("<custom_token_12>", [128_268], prompt_token_ids=[1])
        + event("", [128_269, 128_270])
        + event("<custom_token_13><custom_token_14>", [])
        + END
    )
    assert read(stream) == [128_268, 128_269, 128_270]


@pytest.mark.parametrize("stream", [event("", [128_268, STOP, 128_269]), event(text_of([STOP]))])
def test_the_stop_token_ends_it_and_is_not_given(stream):
    reader = TokenReader(STOP)
    assert STOP not in reader.feed(stream)
    assert reader.done
    assert reader.feed(event("", [128_300])) == ()
    assert reader.finish() == ()


def test_an_answer_that_ends_at_once_is_empty():
    assert read(event("", [STOP], "stop") + b"data: [DONE]\n\n") == []
    assert read(END) == []


def test_an_end_without_a_mark_is_an_end_where_a_reason_is_given():
    assert read(event(text_of([128_300]), finish="length")) == [128_300]
    assert read(event(text_of([128_300]), finish="stop").rstrip()) == [128_300]


@pytest.mark.parametrize(
    ("stream", "code", "words"),
    [
        (event(text_of([128_300])), "bad_response", "broke off"),
        (b"", "bad_response", "no stream"),
        (b"<html>hello</html>", "bad_response", "no stream"),
        (b"data: {nonsense\n\n", "bad_response", "unreadable"),
        (event("Hello, how are you?") + END, "bad_response", "--special"),
        (b'data: {"error": {"message": "CUDA died", "code": 500}}\n\n', "unavailable", "CUDA"),
        (b'data: {"error": {"message": "slow down", "code": 429}}\n\n', "rate_limited", "slow"),
        (b'data: {"error": "just so"}\n\n', "failed", "just so"),
        (
            b'data: {"object": "error", "message": "too long", "code": 400}\n\n',
            "bad_request",
            "too long",
        ),
    ],
)
def test_what_is_no_whole_answer_is_an_error(stream, code, words):
    with pytest.raises(EngineError, match=words) as caught:
        read(stream)
    assert (caught.value.engine, caught.value.code) == ("completions", code)


def test_an_event_without_end_is_given_up():
    reader = TokenReader(STOP)
    with pytest.raises(EngineError, match="larger than"):
        for _ in range(20):
            reader.feed(b"data: " + b"x" * 100_000)

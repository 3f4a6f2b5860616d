"""Every server event satisfies the openai package's own types."""

import json
from typing import Any, get_args

import pytest
from openai.types import realtime as sdk
from pydantic import TypeAdapter

from voice.wire import realtime_server as server
from voice.wire.realtime import decode_server_event, encode
from voice.wire.realtime_mcp import (
    RealtimeMcpApprovalRequestItem,
    RealtimeMcpApprovalResponseItem,
    RealtimeMcpCallItem,
    RealtimeMcpHttpError,
    RealtimeMcpListedTool,
    RealtimeMcpListToolsItem,
    RealtimeMcpProtocolError,
    RealtimeMcpToolExecutionError,
)
from voice.wire.realtime_objects import (
    AudioPart,
    InputAudioContent,
    InputImageContent,
    InputTextContent,
    OutputAudioContent,
    OutputTextContent,
    RealtimeConversation,
    RealtimeError,
    RealtimeFunctionCallItem,
    RealtimeFunctionCallOutputItem,
    RealtimeMessageItem,
    RealtimeRateLimit,
    RealtimeResponse,
    RealtimeResponseAudio,
    RealtimeResponseAudioOutput,
    RealtimeResponseError,
    RealtimeResponseStatus,
    RealtimeResponseUsage,
    TextPart,
    TranscriptionDurationUsage,
    TranscriptionError,
    TranscriptionTokensUsage,
)
from voice.wire.realtime_session import (
    RealtimeAudio,
    RealtimeAudioInput,
    RealtimeAudioPCM,
    RealtimeAudioPCMU,
    RealtimeFunctionTool,
    RealtimeSemanticVad,
    RealtimeSession,
    RealtimeToolChoiceFunction,
    RealtimeTranscription,
    RealtimeTranscriptionSession,
)

USER = RealtimeMessageItem(
    "user",
    [
        InputTextContent("hello"),
        InputAudioContent(transcript="hello"),
        InputImageContent("data:image/png;base64,AA=="),
    ],
    id="item_1",
    status="completed",
)
ANSWER = RealtimeMessageItem(
    "assistant",
    [OutputAudioContent("hi"), OutputTextContent("hi")],
    id="item_2",
    status="incomplete",
)
CALL = RealtimeFunctionCallItem("look_up", "{}", "call_1", "item_3", "completed")
OUTPUT = RealtimeFunctionCallOutputItem("call_1", "42", "item_4", "completed")
MCP_ITEMS = (
    RealtimeMcpListToolsItem(
        "house", [RealtimeMcpListedTool("a", {}, "", {"readOnlyHint": True})], "item_5"
    ),
    RealtimeMcpCallItem("house", "a", "{}", "42", "item_6", approval_request_id="item_8"),
    RealtimeMcpCallItem("house", "a", "{}", "", "item_6", RealtimeMcpProtocolError(-32601, "No.")),
    RealtimeMcpCallItem("house", "a", "{}", "", "item_6", RealtimeMcpToolExecutionError("No.")),
    RealtimeMcpApprovalRequestItem("house", "a", "{}", "item_8"),
    RealtimeMcpApprovalResponseItem("item_8", False, "No.", "item_9"),
)
SESSION = RealtimeSession(
    id="sess_1",
    model="antiphon",
    tools=[RealtimeFunctionTool("look_up", "Look it up.", {"type": "object"})],
    tool_choice=RealtimeToolChoiceFunction("look_up"),
)
MANUAL = RealtimeSession(
    id="sess_1",
    tracing="auto",
    audio=RealtimeAudio(
        RealtimeAudioInput(
            RealtimeAudioPCMU(), transcription=RealtimeTranscription(), turn_detection=None
        )
    ),
)
SEMANTIC = RealtimeSession(
    id="s", audio=RealtimeAudio(RealtimeAudioInput(turn_detection=RealtimeSemanticVad()))
)
PENDING = RealtimeResponse("resp_1", "in_progress")
DONE = RealtimeResponse(
    "resp_1",
    "cancelled",
    [ANSWER, CALL],
    RealtimeResponseStatus("cancelled", "turn_detected"),
    ["audio"],
    "conv_1",
    "inf",
    RealtimeResponseAudio(RealtimeResponseAudioOutput(RealtimeAudioPCM(), "nova")),
    RealtimeResponseUsage(30, 10, 20),
    {"topic": "greeting"},
)
FAILED = RealtimeResponse(
    "resp_1",
    "failed",
    status_details=RealtimeResponseStatus(
        "failed", error=RealtimeResponseError("server_error", "unavailable", "The LLM is down.")
    ),
)
PART = ("resp_1", "item_2", 0, 0)
CALLED = ("resp_1", "item_3", 1, "call_1")

EVENTS: list[server.ServerEvent] = [
    server.SessionCreatedEvent(SESSION),
    server.SessionCreatedEvent(RealtimeTranscriptionSession(id="sess_1")),
    server.SessionUpdatedEvent(MANUAL),
    server.SessionUpdatedEvent(SEMANTIC),
    server.ConversationCreatedEvent(RealtimeConversation("conv_1")),
    *(server.ConversationItemAdded(item) for item in (USER, ANSWER, CALL, OUTPUT)),
    server.ConversationItemDone(USER, "item_0"),
    server.ConversationItemRetrieved(USER),
    server.ConversationItemDeletedEvent("item_1"),
    server.ConversationItemTruncatedEvent("item_2", 0, 320),
    server.InputAudioTranscriptionDeltaEvent("item_1", 0, "hel"),
    server.InputAudioTranscriptionCompletedEvent(
        "item_1", 0, "hello", TranscriptionDurationUsage(1.5)
    ),
    server.InputAudioTranscriptionCompletedEvent(
        "item_1", 0, "hello", TranscriptionTokensUsage(1, 2, 3)
    ),
    server.InputAudioTranscriptionSegment("item_1", 0, "seg_1", 0.0, 1.5, "hello", "A"),
    server.InputAudioTranscriptionFailedEvent(
        "item_1", 0, TranscriptionError("server_error", "unavailable", "The ASR is down.")
    ),
    server.InputAudioBufferCommittedEvent("item_1", "item_0"),
    server.InputAudioBufferCommittedEvent("item_1"),
    server.InputAudioBufferClearedEvent(),
    server.InputAudioBufferSpeechStartedEvent(0, "item_1"),
    server.InputAudioBufferSpeechStoppedEvent(1500, "item_1"),
    server.InputAudioBufferTimeoutTriggered(0, 6000, "item_1"),
    server.InputAudioBufferDtmfEventReceivedEvent("9", 1_763_000_000),
    server.ResponseCreatedEvent(PENDING),
    server.ResponseDoneEvent(DONE),
    server.ResponseDoneEvent(FAILED),
    server.ResponseOutputItemAddedEvent("resp_1", 0, ANSWER),
    server.ResponseOutputItemDoneEvent("resp_1", 1, CALL),
    server.ResponseContentPartAddedEvent(*PART, AudioPart()),
    server.ResponseContentPartDoneEvent(*PART, TextPart("hi")),
    server.ResponseTextDeltaEvent(*PART, "h"),
    server.ResponseTextDoneEvent(*PART, "hi"),
    server.ResponseAudioDeltaEvent(*PART, bytes(960)),
    server.ResponseAudioDoneEvent(*PART),
    server.ResponseAudioTranscriptDeltaEvent(*PART, "h"),
    server.ResponseAudioTranscriptDoneEvent(*PART, "hi"),
    server.ResponseFunctionCallArgumentsDeltaEvent(*CALLED, "{"),
    server.ResponseFunctionCallArgumentsDoneEvent(*CALLED, "look_up", "{}"),
    *(server.ConversationItemDone(item, "item_1") for item in MCP_ITEMS),
    server.McpListToolsInProgress("item_5"),
    server.McpListToolsCompleted("item_5"),
    server.McpListToolsFailed("item_5", RealtimeMcpHttpError(500, "No.")),
    server.ResponseMcpCallArgumentsDelta("resp_1", "item_6", 0, "{"),
    server.ResponseMcpCallArgumentsDone("resp_1", "item_6", 0, "{}"),
    server.ResponseMcpCallInProgress("item_6", 0),
    server.ResponseMcpCallCompleted("item_6", 0),
    server.ResponseMcpCallFailed("item_6", 0),
    server.RateLimitsUpdatedEvent([RealtimeRateLimit("requests", 100, 99, 0.5)]),
    server.RealtimeErrorEvent(RealtimeError("invalid_request_error", "No.", "invalid_value")),
]

SDK_EVENTS: TypeAdapter[Any] = TypeAdapter(sdk.RealtimeServerEvent)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_the_openai_package_takes_the_event_as_it_is(event: server.ServerEvent) -> None:
    encoded = json.loads(encode(event))
    taken = SDK_EVENTS.validate_python(encoded)
    assert taken.type == encoded["type"]
    assert json.loads(taken.model_dump_json(exclude_unset=True)) == encoded
    assert decode_server_event(encode(event)) == event


def test_no_event_goes_untried() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(server.ServerEvent))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_nothing_is_null_outside_a_session(event: server.ServerEvent) -> None:
    encoded = json.loads(encode(event))
    encoded.pop("session", None)
    assert "null" not in json.dumps(encoded)


def test_an_untouched_response_still_lists_its_output() -> None:
    encoded = json.loads(encode(server.ResponseCreatedEvent(PENDING)))
    assert encoded["response"] == {
        "id": "resp_1",
        "status": "in_progress",
        "output": [],
        "object": "realtime.response",
    }


def test_a_content_part_starts_with_an_empty_transcript() -> None:
    encoded = json.loads(encode(server.ResponseContentPartAddedEvent(*PART, AudioPart())))
    assert encoded["part"] == {"type": "audio", "transcript": ""}

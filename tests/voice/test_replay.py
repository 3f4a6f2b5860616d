"""A journal read again: the same decisions, and a story that can be followed."""

from dataclasses import replace

import pytest

from pipelines.conversation.events import (
    CommitTurn,
    DeadlinePassed,
    Event,
    OpenTurn,
    ReplyEnded,
    SettingsChanged,
    StrainChanged,
    TranscriptFailed,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from pipelines.strain import Strain
from tests.voice.recorded import CLOCK_MS, SETTINGS, recorded
from voice.journal import Said, Staged, Step
from voice.replay import (
    Difference,
    details,
    differences,
    in_full,
    in_words,
    lines,
    sort_of,
    stages_in_words,
)


def titles(*entries: object) -> list[str]:
    return [line.title for line in lines(recorded(list(entries)))]  # type: ignore[arg-type]


def test_a_call_is_decided_again_as_it_was() -> None:
    assert list(differences(recorded())) == []


def test_a_machine_that_decides_otherwise_is_found_out() -> None:
    call = recorded()
    later = replace(SETTINGS, endpoint=replace(SETTINGS.endpoint, silence_ms=600))
    found = list(differences(replace(call, header=replace(call.header, settings=later))))
    assert found == []  # its first event brings the settings of then

    entries = [entry for entry in call.entries if not is_settings(entry)]
    found = list(
        differences(replace(call, header=replace(call.header, settings=later), entries=entries))
    )
    committed = [type(command) for command in found[0].step.commands]
    assert CommitTurn in committed
    assert found[0].commands == ()
    steps = [entry for entry in entries if isinstance(entry, Step)]
    assert steps[found[0].number - 1] is found[0].step


def is_settings(entry: object) -> bool:
    return isinstance(entry, Step) and isinstance(entry.event, SettingsChanged)


def test_a_command_that_was_changed_is_found() -> None:
    call = recorded()
    index, step = next(
        (index, entry)
        for index, entry in enumerate(call.entries)
        if isinstance(entry, Step) and entry.commands
    )
    call.entries[index] = replace(step, commands=(OpenTurn(1, 7), *step.commands[1:]))
    [difference] = differences(call)
    assert difference.step == call.entries[index]
    assert difference.commands == step.commands


def test_a_machine_that_raises_is_told_and_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, settings: TurnSettings) -> None: ...

        def step(self, event: Event, now: int) -> list[object]:
            raise KeyError("seven")

    monkeypatch.setattr("voice.replay.TurnMachine", Broken)
    [difference] = differences(recorded())
    assert (difference.number, difference.error) == (1, "KeyError: 'seven'")


# --- the story --------------------------------------------------------------------------------


def test_the_story_is_told_in_the_order_of_time_from_first_to_last() -> None:
    story = lines(recorded())
    assert [line.at_ms for line in story] == sorted(line.at_ms for line in story)
    told = [line.title for line in story]
    for title in ("open turn", "prepare reply", "release reply", "pause reply", "stop reply"):
        assert title in told
    assert told[-1] == "call closed"
    windows = sum(isinstance(step.event, WindowHeard) for step in recorded().steps)
    assert len(story) < windows / 2


def test_audio_that_goes_on_is_one_line_where_it_begins() -> None:
    story = [line for line in lines(recorded()) if line.kind == "caller"]
    assert [line.title for line in story[:3]] == ["silence", "speech", "silence"]
    assert story[1].at_ms == 672
    assert story[1].detail == "0.96 s, -20 dB, speech probability 1.00"
    spoken = [line for line in lines(recorded()) if line.title.startswith("audio of reply")]
    assert [line.detail for line in spoken] == ["1.00 s", "4.00 s", "0.60 s"]


def test_a_caller_who_sends_nothing_for_a_while_is_told_of_anew() -> None:
    windows = [Step(int(CLOCK_MS) + now, WindowHeard(0.0, -60.0)) for now in (32, 64, 3_000, 3_032)]
    assert [line.at_ms for line in lines(recorded([*windows]))] == [32, 3_000]


@pytest.mark.parametrize(
    ("window", "sort"),
    [
        (WindowHeard(None), "unjudged"),
        (WindowHeard(0.49), "silence"),
        (WindowHeard(0.5), "speech"),
        (WindowHeard(0.9, echo=0.9), "echo"),
    ],
)
def test_windows_are_sorted(window: WindowHeard, sort: str) -> None:
    assert sort_of(window, 0.5) == sort


def test_settings_are_told_by_what_is_new_in_them() -> None:
    changed = replace(
        SETTINGS,
        profile="digits",
        filler_ms=None,
        endpoint=replace(SETTINGS.endpoint, threshold=0.8),
    )
    entries = [Step(1, SettingsChanged(SETTINGS)), Step(2, SettingsChanged(changed)),
               Step(3, WindowHeard(0.6))]  # fmt: skip
    first, second, window = lines(recorded([*entries]))
    assert first.detail == "nothing new"
    assert second.detail == "endpoint.threshold 0.80, profile digits, filler none"
    assert window.title == "silence"


def test_what_failed_is_trouble() -> None:
    story = lines(
        recorded(
            [
                Step(1, TranscriptFailed(1, "out of memory")),
                Said(2.0, "ReplyFinished", {"epoch": 1, "code": "timeout", "message": "nothing"}),
                Said(3.0, "ReplyFinished", {"epoch": 2, "code": "", "message": ""}),
            ]
        )
    )
    assert [line.kind for line in story] == ["trouble", "trouble", "agent"]
    assert story[1].detail == "reply 1, code timeout, message nothing"


def test_words_that_are_spoken_as_they_are_written_are_told_once() -> None:
    told = lines(
        recorded(
            [
                Said(1.0, "ReplyText", {"epoch": 1, "text": " All right.", "spoken": "All right."}),
                Said(2.0, "ReplyText", {"epoch": 1, "text": " $5", "spoken": "five dollars"}),
            ]
        )
    )
    assert [line.detail for line in told] == [
        "reply 1, “ All right.”",
        "reply 1, “ $5”, spoken five dollars",
    ]


def test_what_is_only_written_is_told_by_the_sentence() -> None:
    tokens = [(1, "I"), (1, " know"), (1, "."), (1, " Do"), (1, " you"), (2, "Yes")]
    told = lines(
        recorded(
            [
                Said(CLOCK_MS + at, "ReplyText", {"epoch": epoch, "text": text, "spoken": ""})
                for at, (epoch, text) in enumerate(tokens)
            ]
        )
    )
    assert [(line.at_ms, line.title, line.detail) for line in told] == [
        (0, "reply text", "reply 1, “I know.”"),
        (3, "reply text", "reply 1, “ Do you”"),
        (5, "reply text", "reply 2, “Yes”"),
    ]


def test_what_differs_is_told_where_it_does() -> None:
    step = Step(int(CLOCK_MS), DeadlinePassed(), (CommitTurn(1, 7),))
    for difference, told in [
        (Difference(1, step), "nothing"),
        (Difference(1, step, error="KeyError: 7"), "KeyError: 7"),
        (Difference(1, step, (OpenTurn(1, 320),)), "open turn turn 1, at 320 ms"),
    ]:
        last = lines(recorded([step]), [difference])[-1]
        assert (last.kind, last.title, last.detail) == ("trouble", "today instead", told)


def test_names_and_values_are_said_in_words() -> None:
    assert in_words("TranscriptArrived") == "transcript arrived"
    assert in_full(ReplyEnded(1, 320)) == "reply ended reply 1, lead 320 ms"
    assert in_full(DeadlinePassed()) == "deadline passed"
    assert in_full(StrainChanged(Strain.NO_PARTIALS)) == "strain changed strain no partials"
    assert details({"text": "a", "share": 0.123, "usage": {"x": 1}, "no": None, "nor": ""}) == (
        "“a”, share 0.12, usage (x 1)"
    )


def test_what_was_looked_up_is_told_with_its_sources() -> None:
    cited = [{"source": "house.md", "place": "Meals, line 3", "score": 0.8123}]
    fields = {"epoch": 1, "words": "when is breakfast", "outcome": "found", "waited_ms": 12.3}
    entry = Said(CLOCK_MS, "ReplyRecalled", fields | {"citations": cited})
    nothing = Said(CLOCK_MS, "ReplyRecalled", fields | {"outcome": "nothing", "citations": []})
    first, second = lines(recorded([entry, nothing]))
    assert first.title == "reply recalled"
    assert first.detail == (
        "reply 1, words when is breakfast, outcome found, waited 12 ms,"
        " citations source house.md, place Meals, line 3, score 0.81"
    )
    assert second.detail.endswith("outcome nothing, waited 12 ms")


def test_stages_are_told_as_far_as_they_came() -> None:
    assert stages_in_words(Stages(1.0)) == "it gave nothing"
    assert stages_in_words(Stages(1.0, 1.2)) == "first token +200 ms"
    assert stages_in_words(Stages(1.0, 1.2, 1.25, 1.3)).endswith("first audio +50 ms")
    assert titles(Staged(1.0, Stages(1.0))) == ["stages"]

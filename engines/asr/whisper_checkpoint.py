"""A published Whisper's folder: vocabulary, forbidden tokens, and the same without these."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engines.asr.whisper_decoding import Vocabulary
from engines.checkpoints import located
from engines.models import ModelStore
from engines.ports import EngineError

RULES = ("generation_config.json", "config.json")  # older ones have them in the latter


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``where`` is a folder in transformers' format, or a name at the hub.

    ``never`` are ids that no text may hold, ``never_first`` those that no text may begin with.
    """

    where: str
    vocabulary: Vocabulary
    never: tuple[int, ...]
    never_first: tuple[int, ...]


def read(engine: str, model: str, models: ModelStore) -> Checkpoint:
    """The checkpoint of a name in the store, a folder's path, or a name at the hub.

    Raises EngineError (``unavailable``) where tokenizer.json or generation_config.json cannot
    be read, or the folder is not whole.
    """
    where = located(engine, model, models)
    try:
        tokenizer = Tokenizer.from_file(str(_file(where, "tokenizer.json")))
        rules = json.loads(_file(where, "generation_config.json").read_text("utf-8"))
    except Exception as error:  # tokenizers raises bare Exception, the hub a dozen of its own
        raise EngineError(
            engine,
            "unavailable",
            f"cannot read the model {where}: {error}. It takes the folder of a Whisper in "
            "transformers' format, with tokenizer.json and generation_config.json, or a name at "
            "the hub such as openai/whisper-large-v3-turbo",
        ) from error
    return Checkpoint(
        where,
        Vocabulary(engine, tokenizer, multilingual=bool(rules.get("is_multilingual", True))),
        _ids(rules, "suppress_tokens"),
        _ids(rules, "begin_suppress_tokens"),
    )


def without_rules(where: str, into: Path) -> Path:
    """The same checkpoint in the empty folder ``into``, forbidding no token.

    For an engine that follows these rules itself, and so would not let a task token be written.
    The weights are not copied. Raises OSError.
    """
    for file in _folder(where).iterdir():
        if file.name in RULES:
            kept = json.loads(file.read_text("utf-8"))
            for key in ("suppress_tokens", "begin_suppress_tokens"):
                kept.pop(key, None)
            (into / file.name).write_text(json.dumps(kept), "utf-8")
        else:
            (into / file.name).symlink_to(file.resolve())
    return into


def _folder(where: str) -> Path:
    if Path(where).is_dir():
        return Path(where)
    from huggingface_hub import snapshot_download  # comes with transformers

    return Path(snapshot_download(where, allow_patterns=["*.json", "*.txt", "*.safetensors"]))


def _ids(rules: dict[str, Any], key: str) -> tuple[int, ...]:
    return tuple(token for token in rules.get(key) or () if token >= 0)  # -1 stands for none


def _file(where: str, name: str) -> Path:
    if Path(where).is_dir():
        return Path(where) / name
    from huggingface_hub import hf_hub_download  # comes with transformers

    return Path(hf_hub_download(where, name))

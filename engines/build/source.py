"""The checkpoint that a build starts from: a folder, or a name at the hub."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines.build.manifest import Source, record
from engines.build.steps import BuildError, Steps, needs
from engines.checkpoints import load_whole

CONFIG: Final = "config.json"
TOKENIZER: Final = "tokenizer.json"
_INDEX: Final = "model.safetensors.index.json"
_SINGLE: Final = "model.safetensors"
_WANTED: Final = ("*.json", "*.txt", "*.jinja", "*.safetensors")
_IN_32_BITS: Final = "*.fp32*"  # beside those in 16, and twice as much to fetch
_HUB_NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*")

BESIDE_WEIGHTS: Final = (
    TOKENIZER,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "normalizer.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "chat_template.jinja",
)
"""Files that are copied as they are, where the source has them."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in transformers' format, in ``folder``. ``revision`` is the hub's commit,
    empty where ``name`` is a folder's path."""

    name: str
    revision: str
    folder: Path
    config: dict[str, Any]

    @property
    def weights(self) -> list[Path]:
        """The safetensors files. Raises BuildError where there are none, or not all."""
        index = self.folder / _INDEX
        if not index.is_file():
            return [_existing(self.folder / _SINGLE, "the weights")]
        weight_map = _json(index).get("weight_map")
        shards = set(weight_map.values()) if isinstance(weight_map, dict) else set()
        if not shards or not all(isinstance(shard, str) for shard in shards):
            raise BuildError(f"{index} names no files of weights: fetch it again", "bad_request")
        return [
            _existing(self.folder / shard, f"a part that {_INDEX} names")
            for shard in sorted(shards)
        ]

    @property
    def bytes(self) -> int:
        """Size of the weights."""
        return sum(path.stat().st_size for path in self.weights)

    def require(self, *names: str) -> None:
        """Raise BuildError for the first file that is not there, or is no JSON object."""
        for name in names:
            _json(_existing(self.folder / name, "a file that the engine needs"))

    def copy_beside(self, folder: Path) -> None:
        """Copy what is no weights."""
        for name in BESIDE_WEIGHTS:
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)

    def describe(self, steps: Steps) -> Source:
        """What it consists of: reads every byte."""
        beside = [self.folder / name for name in (CONFIG, *BESIDE_WEIGHTS)]
        files = [path for path in beside if path.is_file()] + self.weights
        return Source(self.name, self.revision, record(files, "hash the source", steps))


def locate(model: str, revision: str, kind: str, steps: Steps) -> Checkpoint:
    """The checkpoint in a folder, or at the hub, from where it is fetched once.

    ``kind`` is the config's ``model_type``. A fetch that broke off is taken up again by the
    hub's cache. Raises BuildError.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if revision:
            raise BuildError(
                f"{model} is a folder, and --revision is of the hub: leave it out", "bad_request"
            )
        return _checkpoint(model, "", folder, kind)
    if not _HUB_NAME.fullmatch(model):
        raise BuildError(
            f"there is no folder {model}, and the name of a model at the hub has the form "
            "OWNER/NAME",
            "bad_request",
        )
    fetched = _fetch(model, revision, steps)
    return _checkpoint(model, fetched.name, fetched, kind)


def _checkpoint(name: str, revision: str, folder: Path, kind: str) -> Checkpoint:
    config = _json(_existing(folder / CONFIG, "the model's description"))
    if (actual := config.get("model_type")) != kind:
        raise BuildError(
            f"{folder / CONFIG} describes a {actual or 'model of no type'}, and this build takes "
            f"a {kind} model",
            "bad_request",
        )
    if "quantization_config" in config:
        raise BuildError(
            f"{folder} is quantised already: start from the model in 16 or 32 bits", "bad_request"
        )
    return Checkpoint(name, revision, folder, config)


def _fetch(model: str, revision: str, steps: Steps) -> Path:
    hub, errors = needs("huggingface_hub"), needs("huggingface_hub.errors")
    steps.say(f"fetching {model} from the hub")
    try:
        return Path(
            hub.snapshot_download(
                model,
                revision=revision or None,
                allow_patterns=list(_WANTED),
                ignore_patterns=[_IN_32_BITS],
            )
        )
    except errors.GatedRepoError as error:
        raise BuildError(
            f"{model} is given out on conditions: accept them at its page on the hub, then log in "
            "with `hf auth login`, or set HF_TOKEN",
            "unauthorized",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise BuildError(
            f"{model} has no revision {revision!r} at the hub", "bad_request"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise BuildError(
            f"the hub knows no {model}: check the name; if it is private, log in with "
            "`hf auth login`, or set HF_TOKEN",
            "bad_request",
        ) from error
    except Exception as error:  # what it raises depends on its HTTP library
        if isinstance(error, OSError) and error.errno is not None and error.filename:
            raise  # of the disk
        raise BuildError(
            f"{model} cannot be had from the hub ({_first_line(error)}): see to the network and "
            "run it again, which goes on where it stopped; or fetch it on another machine and "
            "give its folder",
            "unavailable",
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _existing(path: Path, what: str) -> Path:
    if not path.is_file():
        raise BuildError(
            f"{path} is missing, {what}: give the folder of a whole checkpoint in transformers' "
            "format, with safetensors",
            "bad_request",
        )
    return path


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BuildError(f"{path} cannot be read ({error}): fetch it again") from error
    if not isinstance(content, dict):
        raise BuildError(f"{path} should hold a JSON object: fetch it again")
    return content


def require_config(checkpoint: Checkpoint, minimums: Sequence[tuple[str, int]]) -> None:
    """Raise BuildError where a number of the config is missing or below its minimum."""
    for key, least in minimums:
        value = checkpoint.config.get(key)
        if not isinstance(value, int) or value < least:
            raise BuildError(
                f"{checkpoint.folder / CONFIG} has {key} = {value}, and this build needs at "
                f"least {least}: is it the right model?",
                "bad_request",
            )


def load_model(kind: str, folder: Path, dtype: str, device: str, steps: Steps, *, name: str) -> Any:
    """A model of the transformers class ``kind``, to be looked at. Raises BuildError."""
    for package in ("torch", "transformers"):
        needs(package)
    steps.say(f"loading {name} in {dtype} on {device}")
    try:
        return load_whole(kind, folder, dtype).to(device).eval()
    except (AssertionError, RuntimeError, ValueError) as error:
        raise BuildError(
            f"{folder} cannot be loaded on {device}: {error}: is it a whole checkpoint, and has "
            "the device room for it?"
        ) from error

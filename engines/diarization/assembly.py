"""pyannote.audio's pipeline, put together from checkpoints on the disk, or one of the user's own.

Segmentation hears 5 s at a time and says when up to three people speak in it; the voice of each is
encoded; voices that are alike are one speaker. Sound stays what it is on the disk, int16, and is
turned into floats where a model hears it, so that hours of it may be mapped from a file.
"""

from __future__ import annotations

import collections
import os
import typing
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from engines.audio import FULL_SCALE, Samples

RATE: Final = 16_000
_TOO_SHORT: Final = RATE // 10
_MOST_VOICES: Final = 5_000
"""Of a recording that are compared each with each, which takes 100 MB; from 40 minutes of speech
on, every second, every third, and so on. All others go with those that they are like."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a pipeline is made of, and how it runs: see ``engines.diarization.pyannote.Options``.

    ``pipeline``: a folder, or a name at the hub; where it is empty, the other two are files.
    """

    pipeline: str
    segmentation: str
    embedding: str
    device: str
    threads: int
    step: float
    segmentation_batch: int
    embedding_batch: int
    compile: bool
    onset: float
    likeness: float


def assemble(recipe: Recipe) -> Any:
    """The pipeline, ready to run. Raises ImportError and OSError where packages do not go together,
    and whatever pyannote.audio, torch and the hub's library raise."""
    os.environ["PYANNOTE_METRICS_ENABLED"] = "0"  # it tells its makers of each use otherwise
    import torch

    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchcodec, which reads files: none is read here
        made = _fetched(recipe.pipeline) if recipe.pipeline else _put_together(recipe)
    made.segmentation_batch_size = recipe.segmentation_batch
    made.embedding_batch_size = recipe.embedding_batch
    made._segmentation.step = recipe.step * made._segmentation.duration
    made.clustering.filter_embeddings = _thinned(made.clustering.filter_embeddings)
    models = made._segmentation.model, made._embedding.model_
    for model in models:
        model.register_forward_pre_hook(_as_floats)
    made.to(torch.device(recipe.device))
    if recipe.compile and recipe.device.startswith("cuda"):
        for net in (getattr(model, "resnet", None) for model in models):
            if net is not None:  # compiling an LSTM gains nothing
                net.compile()
    return made


def apply(pipeline: Any, samples: Samples, least: int, most: int | None) -> tuple[Any, Any]:
    """Annotations of who speaks when in ``samples`` (n,) int16 at 16 kHz, and of who speaks most
    where several do."""
    import torch

    waveform = torch.from_numpy(samples)[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of recordings with fewer speakers than they are said to
        found = pipeline(
            {"waveform": waveform, "sample_rate": RATE}, min_speakers=least, max_speakers=most
        )
    return found.speaker_diarization, found.exclusive_speaker_diarization


def is_too_short(samples: Samples) -> bool:
    """Nobody can be told from anybody else by so little."""
    return len(samples) < _TOO_SHORT


def _fetched(name: str) -> Any:
    from pyannote.audio import Pipeline

    made = Pipeline.from_pretrained(name)
    if made is None:
        raise ValueError("there is no such pipeline")
    return made


def _put_together(recipe: Recipe) -> Any:
    from pyannote.audio.core.plda import PLDA
    from pyannote.audio.pipelines import SpeakerDiarization

    from engines.diarization.ge2e import Ge2e

    made = SpeakerDiarization(
        segmentation=_segmentation(Path(recipe.segmentation)),
        embedding=Ge2e(Path(recipe.embedding)),
        embedding_exclude_overlap=True,
        clustering="AgglomerativeClustering",
        plda=object.__new__(PLDA),  # asked for always, used by another clustering only
    )
    made.instantiate(
        {
            "segmentation": {"threshold": recipe.onset, "min_duration_off": 0.0},
            "clustering": {
                "method": "average",
                "threshold": recipe.likeness,
                "min_cluster_size": 12,
            },
        }
    )
    return made


def _segmentation(file: Path) -> Any:
    """pyannote's own checkpoints hold more than numbers; only what they are known to hold may be
    made while one is read."""
    import omegaconf
    import torch
    from pyannote.audio.core import model, task
    from pyannote.audio.models.segmentation import PyanNet

    known = [
        *(task.Problem, task.Resolution, task.Specifications, model.Introspection),
        *(omegaconf.listconfig.ListConfig, omegaconf.nodes.AnyNode),
        *(omegaconf.base.ContainerMetadata, omegaconf.base.Metadata),
        *(torch.torch_version.TorchVersion, collections.defaultdict, typing.Any, list, dict, int),
    ]
    with torch.serialization.safe_globals(known):
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    net = PyanNet(**checkpoint["hyper_parameters"])
    net.on_load_checkpoint(checkpoint)
    net.load_state_dict(checkpoint["state_dict"])
    return net


def _as_floats(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    waveforms, *rest = arguments
    if waveforms.is_floating_point():
        return arguments
    return (waveforms.float() / FULL_SCALE, *rest)


def _thinned(choose: Callable[..., Any]) -> Callable[..., Any]:
    """``BaseClustering.filter_embeddings`` with no more than can be compared each with each."""

    def choose_fewer(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        voices, chunks, speakers = choose(*args, **kwargs)
        every = -(-len(voices) // _MOST_VOICES) or 1
        return np.ascontiguousarray(voices[::every]), chunks[::every], speakers[::every]

    return choose_fewer

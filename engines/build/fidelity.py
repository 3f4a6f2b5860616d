"""How far one model's next-token predictions are from another's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from engines.build.calibration import Spoken
from engines.build.manifest import Fidelity
from engines.build.steps import BuildError, Steps, needs, require_within, step
from engines.tts.orpheus_tokens import GRAMMAR

if TYPE_CHECKING:
    import torch


def predictions(
    model: Any, spoken: Sequence[Spoken], what: str, steps: Steps, cache: Any = None
) -> list[list[torch.Tensor]]:
    """For each sequence the log-probabilities of its audio tokens, as they are drawn: among the
    ids that may have the place. A tensor (positions, ids) float32 on the CPU for each of the
    seven places. ``cache`` makes the arguments that give the model a cache to write to."""
    torch = needs("torch")
    found = []
    with torch.inference_mode(), step(steps, what, "tokens", sum(len(one.ids) for one in spoken)):
        for one in spoken:
            ids = torch.tensor([one.ids[:-1]], device=model.device)
            arguments = cache() if cache else {"use_cache": False}
            hidden = model.base_model(input_ids=ids, **arguments)[0][0, len(one.prompt) - 1 :]
            found.append([_place(model, hidden, place) for place in range(GRAMMAR.slots)])
            steps.advance(len(one.ids))
    return found


def compare(
    theirs: Iterable[Sequence[torch.Tensor]], ours: Iterable[Sequence[torch.Tensor]]
) -> Fidelity:
    """Of log-probabilities (positions, ids): those of the source, and those of what was built."""
    torch = needs("torch")
    divergences, agreements, sequences = [], [], 0
    for source, built in zip(theirs, ours, strict=True):
        sequences += 1
        for p, q in zip(source, built, strict=True):
            divergences.append(torch.where(p.isneginf(), 0, p.exp() * (p - q)).sum(-1))
            agreements.append(p.argmax(-1) == q.argmax(-1))
    kl, same = torch.cat(divergences).double(), torch.cat(agreements).double()
    return Fidelity(
        sequences=sequences,
        positions=len(kl),
        mean_kl=round(float(kl.mean()), 9),
        worst_kl=round(float(kl.max()), 9),
        agreement=round(float(same.mean()), 6),
    )


def require_limits(*, max_kl: float, min_agreement: float) -> None:
    """Raise BuildError for limits that nothing can keep."""
    require_within("max-kl", max_kl, 0, math.inf)
    require_within("min-agreement", min_agreement, 0, 1)


def require_faithful(fidelity: Fidelity, *, max_kl: float, min_agreement: float) -> None:
    """Raise BuildError where the built model is too far from its source; NaN is too far."""
    if fidelity.mean_kl <= max_kl and fidelity.agreement >= min_agreement:
        return
    raise BuildError(
        f"what was built is too far from its source: a mean divergence of {fidelity.mean_kl:.4g} "
        f"nats (at most {max_kl:g}) and the same likeliest token at {fidelity.agreement:.1%} of "
        f"{fidelity.positions} positions (at least {min_agreement:.1%}). Calibrate on more, or on "
        "what the model is to say (--samples, --calibrate), keep 16 bits (--precision), or move "
        "the limits (--max-kl, --min-agreement)"
    )


def _place(model: Any, hidden: torch.Tensor, place: int) -> torch.Tensor:
    weight = model.get_output_embeddings().weight
    allowed, may_stop = GRAMMAR.allowed(place)
    ids = [*allowed, GRAMMAR.stop] if may_stop else list(allowed)
    logits = hidden[place :: GRAMMAR.slots] @ weight[ids].T
    predicted: torch.Tensor = logits.float().log_softmax(-1).cpu()
    return predicted

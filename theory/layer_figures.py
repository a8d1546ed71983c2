"""What the bounds of this package say of one attention at one input, beside the certified norm.

Bounds and bracket are in the block-∞/RMS norm of inputs and outputs. What the literature measures
in Euclidean geometry stands beside them and does not compare.
"""

from dataclasses import dataclass

from theory.attention import AttentionAt
from theory.bounds import (
    HeadBound,
    RowBound,
    attention_norms,
    covariance_bound,
    gauge_fixed_bound,
    measured_head_norm_bound,
    moment_bound,
    theorem_4_1_bound,
)
from theory.euclidean import fine_grained_bound, local_norm, measured_spectral_bound, yudin_bound
from theory.opnorm import Bracket, block_norm_bracket

# `moment_bound` takes (L·H)²·L·H operations: beyond this length it is left out.
LONGEST_FOR_MOMENTS = 64


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An upper bound of a local norm, and which share of it, from 0 to 1, is the value path.

    The rest is the attention path. Where the bound is less than the sum of its parts, the share is
    that of the sum.
    """

    value: float
    value_share: float


@dataclass(frozen=True, kw_only=True)
class EuclideanFigures:
    """Sensitivity in Euclidean geometry; for each see theory.euclidean.

    norm: ‖D MHA(U)‖₂ by a Krylov iteration, from below; residual: the iteration's. yudin: None
    where queries and keys are rotated or normalised. measured, fine_grained: our variants.
    """

    norm: float
    residual: float
    yudin: float | None
    measured: float
    fine_grained: Figure


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """All figures of one attention at one input U, in the block-∞/RMS norm.

    theta_H: θ̃_h, the largest exact θ of a row of head h. bracket: certified bounds of the local
    norm ‖D MHA(U)‖. theorem_4_1: the paper's formula; missing: the parameters that its hypotheses
    exclude, so that with any of them the formula is no bound. measured: its proof with the norms at
    U. gauge_fixed, covariance, moments: sharper bounds (theory.bounds), the last one None for more
    than LONGEST_FOR_MOMENTS tokens.
    """

    theta_H: tuple[float, ...]
    bracket: Bracket
    theorem_4_1: Figure
    missing: str
    measured: Figure
    gauge_fixed: Figure
    covariance: Figure
    moments: Figure | None
    euclidean: EuclideanFigures

    @property
    def upper_bounds(self) -> dict[str, Figure]:
        """The figures that are upper bounds of the local norm, by name, without the bracket's."""
        named = {
            "theorem_4_1": None if self.missing else self.theorem_4_1,
            "measured": self.measured,
            "gauge_fixed": self.gauge_fixed,
            "covariance": self.covariance,
            "moments": self.moments,
        }
        return {name: figure for name, figure in named.items() if figure is not None}


def layer_figures(
    at: AttentionAt, *, ratio: float = 1.01, budget: float | None = None
) -> LayerFigures:
    """Every figure of one attention at one input.

    ratio: how narrow the bracket is to be; budget: the seconds that it may take. See
    `theory.opnorm.block_norm_bracket`, also for what is raised.
    """
    norms = attention_norms(at.attention)
    paper = theorem_4_1_bound(at.attention, at.U, norms=norms)
    short = len(at.U) <= LONGEST_FOR_MOMENTS
    return LayerFigures(
        theta_H=tuple(map(float, paper.theta_H)),
        bracket=block_norm_bracket(at, ratio=ratio, budget=budget),
        theorem_4_1=_of_heads(paper),
        missing=paper.missing,
        measured=_of_heads(measured_head_norm_bound(at, norms=norms)),
        gauge_fixed=_of_rows(gauge_fixed_bound(at, norms=norms)),
        covariance=_of_rows(covariance_bound(at, norms=norms)),
        moments=_of_rows(moment_bound(at, norms=norms)) if short else None,
        euclidean=euclidean_figures(at),
    )


def euclidean_figures(at: AttentionAt) -> EuclideanFigures:
    """The figures of one attention at one input in Euclidean geometry."""
    norm, split = local_norm(at), fine_grained_bound(at)
    return EuclideanFigures(
        norm=norm.value,
        residual=norm.residual,
        yudin=yudin_bound(at),
        measured=measured_spectral_bound(at),
        fine_grained=_figure(split.value, split.value_path, split.attention_path),
    )


def _of_heads(bound: HeadBound) -> Figure:
    return _figure(bound.value, bound.value_path, bound.attention_path)


def _of_rows(bound: RowBound) -> Figure:
    row = bound.row
    attention_path = float(bound.key_L[row] + bound.query_L[row])
    return _figure(bound.value, float(bound.value_L[row]), attention_path)


def _figure(value: float, value_path: float, attention_path: float) -> Figure:
    total = value_path + attention_path
    return Figure(value=value, value_share=value_path / total if total > 0.0 else 0.0)

"""The sparse MLP of a model: routed and shared experts, and which layers have them."""

from collections.abc import Iterator
from typing import Self

from pydantic import model_validator

from planner.ranges import Heads, HeadsOrNone, Layers, LayersOrNone, Width
from planner.schema import FieldError, StrictModel, raise_faults


class MixtureOfExperts(StrictModel):
    """The sparse MLP of all layers but those named dense."""

    n_experts: Heads
    """Routed experts of a layer."""
    n_experts_per_token: Heads
    """Routed experts each token visits."""
    n_shared_experts: HeadsOrNone
    """Experts every token visits."""
    expert_intermediate_size: Width
    """Width of one routed expert."""
    shared_expert_intermediate_size: Width | None = None
    """Width of one shared expert, where it is not that of a routed one."""
    n_dense_first_layers: LayersOrNone
    """Leading layers with a dense MLP instead."""
    layer_period: Layers = 1
    """Every how many layers the MLP is sparse."""
    layer_offset: LayersOrNone = 0
    """First sparse layer of a period, counted from 0."""
    latent_size: Width | None = None
    """Width the routed experts read and write, reached by one projection down and one up; absent: hidden_size."""
    router_bias: bool = False
    """Whether the router adds one value per expert to the scores."""
    expert_bias: bool = False
    """Whether the experts' matrices have biases."""
    shared_expert_gate: bool = False
    """Whether one scalar per token weighs the shared experts."""
    n_groups: Heads = 1
    """Groups of routed experts, next to one another on the ranks that they are dealt out to (n_group)."""
    n_groups_per_token: Heads = 1
    """Most groups in which a token's experts lie (topk_group)."""

    @property
    def shared_width(self) -> int:
        """Width of one shared expert."""
        return self.shared_expert_intermediate_size or self.expert_intermediate_size

    def sparse_layers(self, n_layers: int) -> range:
        """Those of some layers, counted from 0, whose MLP has experts."""
        after = (self.layer_offset - self.n_dense_first_layers) % self.layer_period
        return range(self.n_dense_first_layers + after, n_layers, self.layer_period)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        raise_faults(self._faults())
        return self

    def _faults(self) -> Iterator[FieldError]:
        if self.n_experts_per_token > self.n_experts:
            message = f"is {self.n_experts_per_token} (at most n_experts = {self.n_experts})"
            yield FieldError(("n_experts_per_token",), message)
        if self.n_experts % self.n_groups:
            yield FieldError(("n_groups",), f"is {self.n_groups} (a divisor of n_experts = {self.n_experts})")
        elif self.n_experts >= self.n_experts_per_token > self.n_groups_per_token * self.n_experts // self.n_groups:
            message = f"is {self.n_groups_per_token}, whose experts are fewer than n_experts_per_token"
            yield FieldError(("n_groups_per_token",), f"{message} (at least as many)")
        if self.n_groups_per_token > self.n_groups:
            message = f"is {self.n_groups_per_token} (at most n_groups = {self.n_groups})"
            yield FieldError(("n_groups_per_token",), message)
        if self.layer_offset >= self.layer_period:
            yield FieldError(
                ("layer_offset",), f"is {self.layer_offset} (less than layer_period = {self.layer_period})"
            )
        if self.shared_expert_intermediate_size and not self.n_shared_experts:
            yield FieldError(
                ("shared_expert_intermediate_size",), "is given without shared experts (n_shared_experts > 0)"
            )

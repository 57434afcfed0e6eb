"""Drafted tokens as commands ask for them."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import InputProblem
from planner.profiles import MOST_DRAFT_TOKENS, Speculation, model_profile, speculation_fault


@dataclass(frozen=True)
class AskedDrafts:
    """Values of `--draft-tokens`, `--acceptance` and `--draft-model`."""

    draft_tokens: int = 0
    """Tokens drafted per decode step; 0: none."""
    acceptance: tuple[float, ...] = ()
    """Probability that a drafted token is accepted, given that those before it were: one for all, or one each."""
    draft_model: str | None = None
    """Name, alias or path of the profile of the model that drafts; None: the model's own MTP layers."""

    def problems(self, command: str) -> Iterator[InputProblem]:
        """Problems: options that cannot be asked of a command."""
        n = self.draft_tokens
        if not 0 <= n <= MOST_DRAFT_TOKENS:
            yield InputProblem(command, "--draft-tokens", f"is {n}", f"a whole number from 0 to {MOST_DRAFT_TOKENS}")
        elif n and not self.acceptance:
            yield InputProblem(
                command, "--acceptance", "is missing", "how likely drafted tokens are accepted, such as 0.7"
            )
        elif n and (fault := speculation_fault(n, self.acceptance)):
            yield InputProblem(command, "--acceptance", *fault)
        for option, value in (("--acceptance", self.acceptance), ("--draft-model", self.draft_model)):
            if value and not n:
                yield InputProblem(
                    command, option, "is about drafted tokens, and none are drafted", "with --draft-tokens"
                )

    @property
    def speculation(self) -> Speculation | None:
        """The drafting, the profile of its model looked up; None: nothing drafts. Raises InputError."""
        if not self.draft_tokens:
            return None
        draft = None if self.draft_model is None else model_profile(self.draft_model)
        return Speculation.of(self.draft_tokens, self.acceptance, draft)


NO_DRAFTS = AskedDrafts()

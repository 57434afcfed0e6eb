"""Software that the pools of a scenario run on: one stack per model, unless a pool states its own."""

from typing import TYPE_CHECKING

from planner.profiles.instance_spec import StackCriteria
from planner.scenario.located import located

if TYPE_CHECKING:
    from planner.scenario.parts import ModelChoice, Pool
    from planner.scenario.question import Scenario


def stack_criteria(scenario: "Scenario", model: str | None) -> StackCriteria:
    """Criteria that choose the stack for the pools of a model that state none."""
    pools = [pool for pool in scenario.asked_pools.values() if pool.model == model]
    measured = (scenario.measured_for(pool) for pool in pools)
    stated = scenario.model_choice(model).stack
    return StackCriteria(
        model=scenario.profile_of(model).name,
        hardware=tuple(sorted({scenario.hardware_of(pool).name for pool in pools})),
        ran_under=tuple(sorted({found.stack for found in measured if found is not None and found.stack is not None})),
        stated=stated and located(stated, scenario.directory),
    )


def choice_for(choice: "ModelChoice", pool: "Pool") -> "ModelChoice":
    """Model that is served where a pool may state number formats of its own."""
    stated = {"precision": pool.precision, "kv_precision": pool.kv_precision}
    return choice.model_copy(update={key: value for key, value in stated.items() if value is not None})

"""`planner optimize`: the plan of a scenario."""

from planner.cli.common import (
    Format,
    FormatOption,
    ScenarioArgument,
    SetOption,
    TimeLimitOption,
    data_dirs,
    print_json,
    print_rich,
    progress,
)


def optimize(
    scenario: ScenarioArgument = "prfaas-paper",
    overrides: SetOption = None,
    format_: FormatOption = Format.TEXT,
    time_limit_s: TimeLimitOption = 60.0,
) -> None:
    """Plan a scenario: sizes, prefill-to-decode ratio, threshold, link, cost, baselines and what binds."""
    from planner.optimizer import optimize as optimize_scenario
    from planner.scenario import read_scenario

    question = read_scenario(scenario, overrides or ())
    with progress(f"planning {question.name}"):
        plan = optimize_scenario(question, data_dirs(), time_limit_s)
    if format_ is Format.JSON:
        print_json(plan.answer())
    else:
        from planner.report import plan_tables

        print_rich(*plan_tables(plan))

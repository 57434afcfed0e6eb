"""The answers: frozen records that report and cli print.

Public modules:

    case             a plan with all that a cost report shows
    certified        the answer of `planner optimize --certify`
    current          the fleet that stands, beside the plan
    executed         a plan run at parts of its highest rate
    explanation      the answer of `planner explain`
    explorer         the page of `planner explore`
    fidelity         predictions beside measured points
    fidelity_survey  predictions against measurements, as a report has them
    fleet_merit      the figure that fleets are compared by
    judging          a prediction judged by a run
    live             the answer of `planner live`
    live_file        a live run read back from its JSON
    plan             the answer of `planner optimize`: fleet, latency, cost, verdict
    plan_diff        two plans side by side
    plan_file        a plan read back from its JSON
    plan_parts       parts of a plan: schedule, bottlenecks, engine settings, inputs, latency and cost
    plan_sweep       the answer of `planner sweep`
    prediction       the answer of `planner predict`
    roofline         an accelerator's ceilings, and operators below them
    run              the answer of `planner simulate`
    scheduling       the answer of `planner schedulers`
    size             the answer of `planner size`
    size_map         colocated and separate pools for many demands
    slo_run          promises beside what a run made of them
    studies          fronts and sensitivities
    threshold        requests that may leave the site that decodes them
    validation       the answer of `planner validate`
"""

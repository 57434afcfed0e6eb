"""Studies that take several rooms; each loads for itself, as it takes many.

Public modules:

    case            everything that a report shows
    cost_band       the bill at both ends of what times are known to
    diff            differences between two plans, and conditions on them
    drafts          drafted tokens as commands ask for them
    explore         the page of `planner explore`
    fidelity        measured points beside predictions, and stacks fitted to them
    front           the Pareto front of cost against throughput, goodput or TTFT
    instance_size   accelerators that an instance takes to begin with
    kernels         kernel timings of AIConfigurator's wheel
    live            the hybrid model served on this machine
    migration       the way from a fleet that stands to one that is wanted
    plan_inputs     inputs of a plan as its answer carries them
    plan_sweep      a plan for every point of a grid
    predict         the answer of `planner predict`
    predicted_ttft  the distribution of TTFT that queueing predicts of a plan at a load
    scheduling      one plan under every kind of scheduling
    sensitivity     the decision with every input changed
    size            the answer of `planner size`
    size_map        where prefill and decode apart are cheaper
"""

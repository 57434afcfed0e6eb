"""Codes of notes on plans, and on studies around them."""

from planner.notes.meaning import PLAN, PREDICT, Meaning

OF_PLANS: dict[str, Meaning] = {
    # plans: what limits the answer
    "ttft-proven": Meaning(
        PLAN,
        "With `min-ttft` on a network, the search ends between two figures: the TTFT that the plan holds, and one "
        "below which no plan can be.",
        "Allow more time with `--time-limit`, where time ended the search, to bring the two closer.",
    ),
    "ended-by-clock": Meaning(
        PLAN,
        "Searches end by the work that they have done, so that the same question has the same answer on any machine. "
        "Here the machine was several times slower than that, and the clock ended the search: another run may answer "
        "differently.",
        "Plan again on an idle machine, or allow more time with `--time-limit`.",
    ),
    "closed-population": Meaning(
        PLAN,
        "The scenario states users in place of a rate. A user sends the next request after an answer and a time of "
        "thought, so that the rate depends on how soon the plan answers, and both are found together. Waits are "
        "predicted of requests that come independently; those of a closed population wait less, as a run shows.",
        "State `demand_req_per_s` beside `users` to plan for a rate of your own.",
    ),
    "own-points": Meaning(
        PLAN,
        "Factors of the software stack were fitted to measured points that the scenario names. Errors are means over "
        "these points: before, of the stack that the fit began with; after, each of a fit without the point itself.",
        "Measure at more loads, and near those of the plan, to trust it further.",
    ),
    "demand-not-served": Meaning(
        PLAN,
        "The demand is more than the fleet can serve. All figures are stated at the fleet's highest rate instead.",
        "Allow more accelerators or budget, or lower `demand_req_per_s`.",
    ),
    "queue-saturated": Meaning(
        PLAN,
        "A pool or link is 100 % busy at the stated rate. Its queue would grow without end, so no TTFT under load "
        "exists.",
        "State a `demand_req_per_s` below the highest rate, or a promise (`slo.ttft_s`).",
    ),
    "waits-not-modelled": Meaning(
        PLAN,
        "Waiting times are known for one shared queue per pool and one prefill at a time. The scenario asks for "
        "another discipline, so TTFT under load is not predicted.",
        "Run the plan with `planner simulate`, or plan with `--certify`.",
    ),
    "promise-counts": Meaning(
        PLAN,
        "What the promised TTFT includes: waits for prefill, for a shared link and for a place in a decode batch. "
        "Pools are not planned fuller than stated.",
        "Nothing. To check the promise by a run, use `--certify` or `planner validate`.",
    ),
    "promise-of-class": Meaning(
        PLAN,
        "On a network the promise of a class covers all pools that serve the class together. One pool may be "
        "later than the promise if the others make up for it.",
        "Nothing. Give classes a promise of their own (`classes.NAME.slo`) to separate them.",
    ),
    "pool-unreachable": Meaning(
        PLAN,
        "No link joins this prefill pool to one that decodes its model, or no class is for its model: it stays empty.",
        "Add a link or a class, or remove the pool.",
    ),
    "prompt-waits-for-memory": Meaning(
        PLAN,
        "The longest prompt does not fit beside the KV caches that are still being sent. Prompts wait for memory "
        "there. The plan's TTFT does not include that wait; a run does.",
        "Run the plan with `planner simulate`, or give the instance more accelerators.",
    ),
    "request-too-large": Meaning(
        PLAN,
        "The longest request needs more memory than a decode instance has beside the weights. Engines would refuse it.",
        "Use more accelerators per instance, a narrower KV format, or limit the lengths.",
    ),
    "context-exceeded": Meaning(
        f"{PLAN}, {PREDICT}, size",
        "Prompts are longer than the context that the model is made for. Engines refuse them unless RoPE scaling "
        "extends the context.",
        "State what the model is served with (`model.context_limit_tokens`), or limit the lengths.",
    ),
    "cache-format-of-checkpoint": Meaning(
        f"{PLAN}, {PREDICT}, size",
        "The checkpoint asks for a KV cache in another number format than the one that is counted here. Engines follow "
        "the checkpoint unless told otherwise.",
        "State that format (`kv_precision` of the model, or `--kv-precision`), or tell the engine the other one.",
    ),
    "nearly-full": Meaning(
        PLAN,
        "A pool is so busy that waits are long, and a small error in its service times changes them a lot.",
        "Plan for more demand than you expect, or promise a TTFT.",
    ),
    "lengths-extrapolated": Meaning(
        PLAN,
        "Some prompts are longer or shorter than the lengths at which prefill was measured. Their times are "
        "extrapolated.",
        "Measure those lengths and add them to the curve (`[measured.NAME]`).",
    ),
    "rule-ignores-prefixes": Meaning(
        PLAN,
        '`capacity_rule = "mean-length"` takes the mean uncached length for a whole prompt. That is wrong if prefixes '
        "are cached.",
        'Use `capacity_rule = "expected-work"`, the default.',
    ),
    "times-not-measured": Meaning(
        PLAN,
        "Nobody measured these service times on this hardware: they are calibrated on other measurements, "
        "inferred, or from the datasheet alone.",
        "Measure your own instances and [calibrate a stack](../how-to/calibrate-my-stack.md).",
    ),
    "software-differs": Meaning(
        PLAN,
        "Pools of one model run on different serving software. A difference between them is not due to hardware alone.",
        "State one `stack` in `[model]`.",
    ),
    "weights-differ": Meaning(
        PLAN,
        "Pools of one model hold its weights in different number formats.",
        "State one `precision` in `[model]`, if that is not intended.",
    ),
    "caches-differ": Meaning(
        PLAN,
        "Pools of one model keep the KV cache in different formats. The time to convert between them is not counted.",
        "State one `kv_precision` in `[model]`.",
    ),
    "format-emulated": Meaning(
        f"{PLAN}, {PREDICT}",
        "The accelerator has no unit for this number format. Weights are read at that width, and products run in "
        "the next wider format.",
        "Choose a format that the chip has (`planner profiles show HARDWARE`).",
    ),
    "own-profile-used": Meaning(
        f"{PLAN}, {PREDICT}, size, fidelity",
        "A profile given by path has the name, or an alias, of a profile of the catalogue. The file is used "
        "everywhere. Measurements and calibrations are found by name: those of the catalogue's profile count for it.",
        "Give the file a name of its own, if it is another accelerator, model or stack.",
    ),
    "value-beyond-usual": Meaning(
        f"{PLAN}, size, scenario check",
        "A value is far from what anybody asks for, as if it were meant in another unit: a rent by the month, a "
        "promise in milliseconds, a percentile as a fraction. It is used as it stands.",
        "State it in the unit of its key. The note says what it would be.",
    ),
    "price-missing": Meaning(
        PLAN,
        "Something in the plan has no price, so its cost is unknown.",
        "Add the price in `[prices]` or at the link.",
    ),
    "price-unknown": Meaning(
        "size",
        "No rent of an accelerator is stated or known. 1 USD an hour stands for it: costs of accelerators alone then "
        "count them, and beside a known price they tell nothing.",
        "State it: `--price NAME=USD`.",
    ),
    "price-assumed": Meaning(
        PLAN,
        "A price has no source, so it counts as assumed.",
        "Give a `source`, or accept the price as a what-if.",
    ),
    "no-baseline": Meaning(
        PLAN,
        "This fleet to compare with could not be planned, for the reason given. The verdict does not use it.",
        "Nothing, or change what the reason names.",
    ),
    "baseline-infeasible": Meaning(
        PLAN,
        "This fleet to compare with does not do what the plan does, at any size that can be had: the reason says why. "
        "The verdict counts that.",
        "Nothing, or promise less, to see what it would cost then.",
    ),
    "colocated-composed": Meaning(
        PLAN,
        "Nobody measured passes that mix prompts and decoding. Those of the colocated fleets are the sum of measured "
        "prefill and decode times. The `gap` of the baseline counts that both may overlap perfectly.",
        'Use `service_times = "roofline"` in the pools, which times mixed passes.',
    ),
    "baseline-is-plan": Meaning(
        PLAN,
        "The fleet to compare with turned out to be the plan itself.",
        "Nothing.",
    ),
    "cheaper-fleet": Meaning(
        PLAN,
        "On one site the verdict names a better fleet with other accelerators or layouts. The note has the "
        "`--set` options that make it the plan.",
        "Run `planner optimize` with those options.",
    ),
    "spare-cost": Meaning(
        PLAN,
        "What `[spare] survive` costs: the difference to the cheapest fleet without it.",
        "Nothing.",
    ),
    "spare-cost-unknown": Meaning(
        PLAN,
        "What `[spare] survive` costs was not found in the time.",
        "Allow more time with `--time-limit`.",
    ),
    "break-even-in-report": Meaning(
        PLAN,
        "The scenario asks for break-evens, which this command does not compute.",
        "Run the `planner report` command that the note states.",
    ),
    "cheaper-than-modelled": Meaning(
        PLAN,
        "The latency model excludes this fleet, and the runs showed that it keeps the promise. Bound, gap and the "
        "other fleets are those of the model.",
        "Nothing. `--no-run` gives the fleet that the model finds.",
    ),
    "cheaper-undecided": Meaning(
        "optimize, size",
        "A cheaper fleet was run as long as the limit on requests allows, and the promise lies within the interval of "
        "that run. The plan is the cheapest whose run keeps the promise for certain.",
        "Allow a longer run with `--most-requests`, or more time with `--time-limit`.",
    ),
    "higher-than-modelled": Meaning(
        PLAN,
        "The latency model finds a lower goodput for this fleet, and the runs showed that it keeps the promise at a "
        "higher one. Gap and the other fleets are those of the model.",
        "Nothing. `--no-run` gives the goodput that the model finds.",
    ),
    "pool-not-named": Meaning(
        "optimize --current",
        "The file of the fleet that stands leaves out a pool of the scenario. It counts as having no instances.",
        "Add the pool to the file.",
    ),
    "other-layout-stands": Meaning(
        "optimize --current",
        "A pool stands on another layout than the plan runs it on. What stands is counted as if it ran on the plan's.",
        "Nothing if you mean to run it so; else fix `layout` of the pool in the scenario.",
    ),
    "links-not-named": Meaning(
        "optimize --current",
        "The file of the fleet that stands has no links. The links of the plan are taken to stand already.",
        "Add `[links]` with Gbps to the file.",
    ),
    "more-than-stock": Meaning(
        "optimize --current",
        "More accelerators stand at a site than the scenario has in stock there.",
        "Correct the file, or the site's `accelerators`.",
    ),
    "no-cheapest-change": Meaning(
        "optimize --current",
        "No fleet was found that serves what is asked for and keeps every instance that stands, or prices are missing.",
        "Look at the plan beside it, state the prices, or allow more time with `--time-limit`.",
    ),
    "passes-considered": Meaning(
        PLAN,
        "Which sizes of passes of a colocated pool plans were compared of. The plan has the best one.",
        "Nothing. `tokens_per_pass` of the pool states one, or others to choose from.",
    ),
    "classes-alike": Meaning(
        "optimize, size, scenario check",
        "Classes of one model, workload, promise, homes, pools and times of day ask nothing that one class would not.",
        "Nothing. To have a threshold for each of them, state what tells them apart.",
    ),
    "layouts-considered": Meaning(
        "optimize",
        "How many layouts of a pool were looked at, and which of them plans were compared of.",
        "Nothing; state `layout` and `accelerators_per_instance` to fix one.",
    ),
    "tokens-drafted": Meaning(
        PLAN,
        "Decode steps verify drafted tokens, and the plan supposes how many are accepted. That depends on prompts and "
        "temperature.",
        "Plan with the acceptance that your engine reports, and with a lower one to see what depends on it.",
    ),
    # demands without a scenario
    "colocated-without-drafts": Meaning(
        "size",
        "Passes of prompts among sequences with drafted tokens are not modelled, so that no colocated pool is sized.",
        "Leave out `--draft-tokens` to compare colocated and disaggregated pools as they are without.",
    ),
    "no-colocated-fleet": Meaning(
        "size",
        "No instance that prefills and decodes in one batch keeps the promises.",
        "Allow longer times, or take the disaggregated fleet.",
    ),
    "no-disaggregated-fleet": Meaning(
        "size", "No prefill and decode pools keep the promises.", "Allow longer times, or take the colocated fleet."
    ),
    "colocated-by-run-alone": Meaning(
        "size, optimize",
        "The queueing model of colocated pools is known to be off there: too few places are free in the batch, its "
        "instances are busy together, prompts that come together decode together, a router meets prompts of very "
        "unequal lengths, or a request meets few of the prompts that come. Elsewhere it is within 8 % of a mean TTFT, "
        "12 % of its P90 and 6 % of TPOT in 19 of 20 pools. Only a run certifies a promise.",
        "Do not use `--no-run` for a promise that matters.",
    ),
    "replicas-step-together": Meaning(
        "size, optimize",
        "Attention replicas of an instance wait for the fullest of them. The model falls short where they are busy.",
        "Do not use `--no-run` with such layouts.",
    ),
    "bursts-in-runs-alone": Meaning(
        "size --from",
        "Fleets are run with the arrivals that the trace recorded, at the rate asked for. The queueing model of "
        "colocated pools knows independent users alone, so that what is predicted of them leaves bursts out.",
        "Go by what was run. `--no-run` decides nothing of a bursty trace.",
    ),
    "bursts-limited": Meaning(
        "size --from, scenario new --from",
        "Arrivals of the record are burstier than `workload.arrivals` states them: `squared_cv` is 16 at most. Plans "
        "count on gaps of 16; runs of `size` take the record's own times.",
        "Split the record into `periods` where its rate changes, and run the plan with recorded arrivals "
        "(`execution.arrivals`).",
    ),
    "batches-without-bursts": Meaning(
        PLAN,
        "Times are promised to requests that arrive in bursts, or more evenly than independent users. The model of "
        "the batches of colocated pools knows independent users alone. The plan is found with it.",
        "Let the plan be run, which `optimize` does by default: the run has the stated arrivals.",
    ),
    "hand-off-not-counted": Meaning(
        PLAN,
        "Prefill and decode are apart in one site, and moving a cache between them is taken to cost no time.",
        "State `sites.NAME.fabric_gbps`, the rate at which an instance sends within the site.",
    ),
    # studies around a plan
    "budget-without-plan": Meaning(
        "optimize --pareto", "There is no plan for this budget of the front.", "Nothing; the front leaves it out."
    ),
    "input-not-varied": Meaning(
        "optimize --sensitivity",
        "This input was not varied, because the scenario does not state it or it is recorded.",
        "State it, if its influence matters.",
    ),
    "error-band-unknown": Meaning(
        "optimize --sensitivity",
        "The error of predicted times is unknown for these pools: their stack has no error band, or nothing is "
        "predicted.",
        "Calibrate the stack with points of two models or accelerators.",
    ),
    "no-long-term": Meaning(
        "schedulers",
        "The plan cannot have long-term scheduling, so only the others were compared.",
        "Nothing, or change what the reason names.",
    ),
}

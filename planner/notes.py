"""What a reader must know to use an answer: every note ends with a stable code, and every code is explained here once.

The page of notes in the handbook is written from this table.
"""

import re
from typing import NamedTuple, NewType

Note = NewType("Note", str)
"""A text that ends with its code; made by `note` alone."""
ENDING = re.compile(r" \(note: ([a-z0-9-]+)\)$")


class Meaning(NamedTuple):
    """What a code stands for."""

    of: str
    """Commands that say it."""
    means: str
    """What is the case, and why it matters."""
    do: str
    """What a reader can do about it."""


def note(code: str, text: str) -> Note:
    """A note: the text with its code at the end.

    Args:
        code: one of MEANINGS.
        text: what is the case, without a full stop.

    Raises:
        KeyError: nobody explained that code.

    >>> note("price-missing", "cost unknown; missing: wan")
    'cost unknown; missing: wan (note: price-missing)'
    """
    if code not in MEANINGS:
        raise KeyError(code)
    return Note(f"{text} (note: {code})")


def code_of(text: str) -> str | None:
    """The code that a note ends with; None of one that an older version wrote.

    >>> code_of("cost unknown; missing: wan (note: price-missing)"), code_of("cost unknown")
    ('price-missing', None)
    """
    found = ENDING.search(text)
    return found and found[1]


PLAN, RUN, PREDICT = "optimize", "simulate, validate", "predict"
MEANINGS: dict[str, Meaning] = {
    # plans: what limits the answer
    "ttft-proven": Meaning(
        PLAN,
        "With `min-ttft` on a network, the search ends between two figures: the TTFT that the plan holds, and one "
        "below which no plan can be.",
        "Allow more time with `--time-limit` to bring the two closer.",
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
        "No link joins this prefill pool to a pool that decodes its model, so it stays empty.",
        "Add a link, or remove the pool.",
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
        f"{PLAN}, {PREDICT}",
        "Prompts are longer than the context that the model is made for. Engines refuse them unless RoPE scaling "
        "extends the context.",
        "State what the model is served with (`model.context_limit_tokens`), or limit the lengths.",
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
    "price-missing": Meaning(
        PLAN,
        "Something in the plan has no price, so its cost is unknown.",
        "Add the price in `[prices]` or at the link.",
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
    "pool-not-named": Meaning(
        "optimize --current",
        "The file of the fleet that stands leaves out a pool of the scenario. It counts as having no instances.",
        "Add the pool to the file.",
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
    "layouts-considered": Meaning(
        "optimize",
        "How many layouts of a pool were looked at, and which of them plans were compared of.",
        "Nothing; state `layout` and `accelerators_per_instance` to fix one.",
    ),
    # demands without a scenario
    "size-considered": Meaning(
        "size", "How many layouts and sizes of instances were compared, and whose service times they have.", "Nothing."
    ),
    "no-colocated-fleet": Meaning(
        "size",
        "No instance that prefills and decodes in one batch keeps the promises.",
        "Allow longer times, or take the disaggregated fleet.",
    ),
    "no-disaggregated-fleet": Meaning(
        "size", "No prefill and decode pools keep the promises.", "Allow longer times, or take the colocated fleet."
    ),
    "tpot-meanings": Meaning(
        "size",
        "Colocated requests keep the limit on the time per output token as a percentile of their mean. In decode pools "
        "each step is below it, which is stricter.",
        "Keep it in mind when the two are close.",
    ),
    "colocated-ttft-rough": Meaning(
        "size",
        "The queueing model of colocated pools is rough where they are busy. The run decides, not the prediction.",
        "Do not use `--no-run` for a promise that matters.",
    ),
    "replicas-step-together": Meaning(
        "size",
        "Attention replicas of an instance wait for the fullest of them. The model falls short where they are busy.",
        "Do not use `--no-run` with such layouts.",
    ),
    "hand-off-not-counted": Meaning(
        "size",
        "Moving a cache from prefill to decode inside the site is taken to cost no time.",
        "Write the scenario with `--write`, and state the link.",
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
    # runs
    "part-of-a-day": Meaning(
        RUN,
        "The arrivals follow a daily pattern, and the run is shorter than a day. Its rates are those of that part.",
        "Run more requests (`--requests`).",
    ),
    "kept-full": Meaning(
        RUN,
        "The run kept the system full to measure its highest rate. TTFT in such a run depends on the length of "
        "the run.",
        "Read throughput only; for TTFT use `--load` below 1.",
    ),
    "run-saturated": Meaning(
        RUN,
        "A pool is full at this load. Its queue grows as long as requests arrive.",
        "Use a lower `--load`.",
    ),
    "warm-up-short": Meaning(
        RUN,
        "The part of the run that is not counted is too short. The system was still filling when counting began.",
        "Run more requests (`--requests`).",
    ),
    "more-notes": Meaning(
        RUN,
        "Several periods have notes, and only those of the first one are printed.",
        "Use `--period NAME` to see those of another.",
    ),
    "supposed-discipline": Meaning(
        "optimize --certify",
        "The search assumed one shared queue and one prefill at a time. The run used the disciplines of the scenario.",
        "Nothing. The promise was checked by the run.",
    ),
    "stricter-promise": Meaning(
        "optimize --certify",
        "The plan was searched for with a stricter promise than the stated one, because a run broke the stated "
        "one. Gap, bound and the other fleets belong to the stricter promise.",
        "Nothing.",
    ),
    "loss-not-run": Meaning(
        "optimize --certify",
        "The run had everything in place. What is left after a loss was planned, but not run.",
        "Run it with `execution.faults`.",
    ),
    "promise-undecided": Meaning(
        "simulate",
        "The promise lies within the confidence interval of the run, which is too short to tell whether it is kept.",
        "Allow a longer run with `--most-requests`.",
    ),
    # predictions and measurements
    "version-seen-on-others": Meaning(
        PREDICT,
        "The points that tell this version apart from its framework are of other models. Its own factors are not used "
        "for this model.",
        "Calibrate the stack with points of this model.",
    ),
    "prompt-does-not-fit": Meaning(
        PREDICT,
        "The KV cache of a prompt does not fit beside the weights. The note has what is missing and what would do.",
        "Use more accelerators, a narrower format or shorter prompts.",
    ),
    "kernels-not-measured": Meaning(
        PREDICT,
        "No kernel was measured on this chip. The fraction of its peak that kernels reach is a typical one.",
        "Calibrate with measured points of this chip.",
    ),
    "hardware-announced": Meaning(
        PREDICT,
        "The chip is announced, not shipped. Its figures are the vendor's claims.",
        "Read the prediction as a what-if.",
    ),
    "shapes-inferred": Meaning(
        PREDICT,
        "The model's shapes are inferred, because they are not published.",
        "Read the prediction as a what-if.",
    ),
    "weights-at-least": Meaning(
        PREDICT,
        "The model's published size is rounded. The memory check takes the smallest size that it may stand for.",
        "Leave some memory free.",
    ),
    "cache-format-of-stack": Meaning(
        PREDICT,
        "The prediction keeps the KV cache in bf16, and the stack keeps it in fp8 by default.",
        "Add `--kv-precision fp8` to predict the stack's default.",
    ),
    "instance-size-chosen": Meaning(
        PREDICT,
        "Nobody stated how many accelerators an instance has, and fewer would hold the model too.",
        "State it with `--accelerators N`.",
    ),
    "version-not-calibrated": Meaning(
        PREDICT,
        "The stack was calibrated, but not at this version. The factors of its framework stand for it.",
        "Calibrate with points of this version.",
    ),
    "source-overhead-left-out": Meaning(
        PREDICT,
        "A benchmark measured a constant time per prompt that belongs to the benchmark and not to the stack.",
        "Add `--source NAME` to include it.",
    ),
    "phase-not-calibrated": Meaning(
        PREDICT,
        "No measured point says anything about this phase. The stack's factors are used anyway.",
        "Calibrate with points that have TTFT and TPOT.",
    ),
    "beyond-calibration": Meaning(
        PREDICT,
        "Figures marked with `~` are outside the lengths, batches or instances that the stack was calibrated on.",
        "Calibrate with points in that range, or trust the figure less.",
    ),
    "times-from-profile": Meaning(
        PREDICT,
        "The model's shapes are unknown. Its times are the measured ones of its profile.",
        "Nothing.",
    ),
    "times-of-instance": Meaning(
        PREDICT,
        "Which measured instance of the profile the times are of.",
        "Nothing.",
    ),
    "no-times": Meaning(
        PREDICT,
        "There are no times for this instance: the profile has none, or a figure of the accelerator is unpublished.",
        "Ask for an instance that the profile has, measure this one, or assume the figure.",
    ),
    "point-precision": Meaning(
        "fidelity, calibrate",
        "The number format of these points was read from the model's name, or is stated otherwise than the name says.",
        "State `precision` in the points file.",
    ),
    # scenarios to start from
    "no-promise": Meaning(
        "scenario new",
        "The scenario promises no TTFT, so the cheapest fleet may be nearly full, with long waits.",
        "Add `--slo-ttft SECONDS`.",
    ),
    "demand-to-edit": Meaning(
        "scenario new",
        "Nobody stated a demand. A placeholder is written.",
        "Edit `demand_req_per_s`, or give `--demand`.",
    ),
    "price-to-edit": Meaning(
        "scenario new",
        "No rent of this accelerator is known. A placeholder is written, so that fleets can be compared at all.",
        "Edit the price, or give `--price`.",
    ),
    # recorded requests
    "last-run-taken": Meaning(
        "scenario new --from",
        "The file has several benchmark runs. The last one is read.",
        "Write the run that you want into a file of its own.",
    ),
    "tails-unknown": Meaning(
        "scenario new --from",
        "The file has mean lengths only. Long prompts, which decide about waits and thresholds, are not in it.",
        "Record every request, or histograms of lengths.",
    ),
    "no-rate": Meaning(
        "scenario new --from",
        "One scrape of metrics has no times, so it says nothing about the request rate.",
        "Give `--demand`, or the JSON of a range query.",
    ),
    "models-counted-together": Meaning(
        "scenario new --from",
        "The metrics are of several models, and their requests are counted as one class.",
        "Record the metrics of each model separately.",
    ),
    "lengths-in-buckets": Meaning(
        "scenario new --from",
        "Lengths are known as counts in buckets. The note says how wide the buckets are and how far their mean is off.",
        "Nothing, or use a trace of single requests.",
    ),
    # differences
    "within-gaps": Meaning(
        "diff",
        "Some figures differ by less than the gaps of both plans together, so the difference may be due to the search.",
        "Allow more time for both plans, if it matters.",
    ),
    "inputs-unknown": Meaning(
        "diff",
        "The plan file does not contain the inputs it was made from, so the cause of a change is unknown.",
        "Plan it again with this version.",
    ),
    "no-input-changed": Meaning(
        "diff",
        "The plans differ, though their inputs are the same: the searches stopped at different plans.",
        "Allow more time with `--time-limit`.",
    ),
    "plan-has-gap": Meaning(
        "diff",
        "A plan is the best one found in the time, and not proven best.",
        "Allow more time with `--time-limit`.",
    ),
    # warnings
    "parameters-differ": Meaning(
        "profiles import",
        "The parameters counted from the config differ from the size in the model's name, or from the stated size.",
        "Check the number of layers and experts in the config.",
    ),
    "index-differs": Meaning(
        "profiles import",
        "The tensors in the checkpoint's index differ from what the config says.",
        "Check that config and index belong to the same checkpoint.",
    ),
    "connections-dropped": Meaning(
        "live",
        "A program other than the workers connected to a worker. Its connections were dropped.",
        "Nothing, or find out which program it is.",
    ),
    "compiled-code-not-stored": Meaning(
        RUN,
        "Other users may write to this folder, so compiled code is not stored there. Each run compiles anew.",
        "Set `PLANNER_CACHE_DIR` to a folder of your own.",
    ),
}
"""Every code with its meaning. A code is never used again for something else."""

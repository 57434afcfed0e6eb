"""Codes of notes on runs, predictions, measurements and what is read from files."""

from planner.notes.meaning import PREDICT, RUN, Meaning

OF_RUNS: dict[str, Meaning] = {
    # runs
    "part-of-a-day": Meaning(
        RUN,
        "The arrivals follow a daily pattern, and the run is shorter than a day. Its rates are those of that part.",
        "Run more requests (`--requests`).",
    ),
    "replications-alike": Meaning(
        RUN,
        "Every replication ran the same requests at the same times, because the trace leaves nothing to chance. "
        "So nothing is known about how far the figures would differ on another day.",
        "Use a longer trace, or other `execution.arrivals`.",
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
        "The part of the run that is not counted is too short. When counting began, the system was still filling, or "
        "the queue of a very busy pool had not settled. What is below its prediction in such a run is undecided.",
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
        "optimize, size",
        "The plan was searched for with a stricter promise than the stated one, because no run bore out a plan "
        "of the stated one. The other fleets belong to the stricter promise, and were not run: one may keep the "
        "stated promise with fewer instances. Gap and bound belong to the stated one.",
        "To know what one other kind of serving costs when it is run, plan it alone: `--set pools.NAME.n_instances=0` "
        "rules out a pool.",
    ),
    "loss-not-run": Meaning(
        "optimize --certify",
        "The run had everything in place. What is left after a loss was planned, but not run.",
        "Run it with `execution.faults`.",
    ),
    "promise-undecided": Meaning(
        "simulate, size",
        "The promise lies within the confidence interval of the run, which is too short to tell whether it is kept.",
        "Allow a longer run: `--most-requests`, or `--requests` of a size.",
    ),
    # predictions and measurements
    "drafting-slows-down": Meaning(
        PREDICT,
        "A step with drafted tokens takes longer than the plain step by more than the tokens that it yields. Large "
        "batches compute what small ones wait for memory to do, so that verifying is no longer free.",
        "Draft fewer tokens, or none at such batches; engines can switch drafting off by load.",
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
    "all-reduce-not-measured": Meaning(
        PREDICT,
        "No all-reduce over so many ranks was measured on this chip. The bandwidth of a larger group stands for it, or "
        "a typical one. Behind a switch groups differ by a third, over PCIe or direct links several times.",
        "Give the profile `all_reduce_2_fraction` or `all_reduce_4_fraction`, for example from nccl-tests.",
    ),
    "scales-not-counted": Meaning(
        PREDICT,
        "The checkpoint does not say what the scales of its 4-bit weights take: memory and reading are a little too "
        "small.",
        "Import the config of the quantised checkpoint: `planner profiles import config.json`.",
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
    "version-of-framework": Meaning(
        PREDICT,
        "A version was named. Factors are those of its framework: versions that were fitted by themselves predicted "
        "models and accelerators that they had not seen no better.",
        "Calibrate with points of your own server, which rest on its very version.",
    ),
    "measured-otherwise": Meaning(
        PREDICT,
        "Somebody measured prompts of this model on such an instance, and the prediction is over a quarter off. What "
        "the benchmark adds to every request is no part of a prediction.",
        'Plan with the measured times (`service_times = "measured"`), or measure your own server.',
    ),
    "phase-not-calibrated": Meaning(
        PREDICT,
        "No measured point says anything about this phase. The stack's factors are used anyway.",
        "Calibrate with points that have TTFT and TPOT.",
    ),
    "beyond-calibration": Meaning(
        "predict, size, optimize, fidelity",
        "Accelerators, instances, lengths or batches are outside those that the stack was calibrated on.",
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
    "drafts-inferred": Meaning(
        "fidelity",
        "Points of this series are faster than steps of one token per sequence, and do not state whether they draft.",
        "State `draft_tokens` (0 for none) and `acceptance` in the points file.",
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
    "requests-failed": Meaning(
        "scenario new",
        "Some requests of the benchmark failed. Its lengths and latencies are of those that were answered.",
        "Find out why: a server that refuses requests is overloaded, and its rate is not the demand.",
    ),
    "time-unit-read": Meaning(
        "scenario new, size, optimize, simulate",
        "Nobody stated the unit of the times, and their size or the other fields of the file tell it.",
        "Nothing, or state it: `--time-unit`, in a scenario `time_unit`.",
    ),
    "time-unit-usual": Meaning(
        "scenario new --from, size --from",
        "Nobody stated the unit of the times. They are read in the one that is usual; the note says what rate follows.",
        "State it (`--time-unit`) where the rate is not yours.",
    ),
    "block-size-read": Meaning(
        "scenario new, size, optimize, simulate",
        "Nobody stated the size of prefix blocks, and the number of blocks of every prompt tells it.",
        "Nothing, or state it: `--block-tokens`, in a scenario `block_tokens`.",
    ),
    "columns-not-read": Meaning(
        "scenario new --from, size --from",
        "A table of requests has columns that no role names: its rows count whatever these say, failed requests too.",
        "Leave out of the file the rows that should not count, or name the column in `--columns`.",
    ),
    "rows-left-out": Meaning(
        "scenario new, size, optimize, simulate",
        "Rows that are no requests are left out, as asked for. Their share is small, and the first ones are named.",
        "Look at the rows. Failed requests took time too.",
    ),
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
        "Figures of two fleets differ by less than both gaps and 1 %, so the difference may be due to the search.",
        "Allow more time for both plans, where time ended their searches.",
    ),
    "inputs-unknown": Meaning(
        "diff",
        "The plan file does not contain the inputs it was made from, so the cause of a change is unknown.",
        "Plan it again with this version.",
    ),
    "no-input-changed": Meaning(
        "diff",
        "The plans differ, though their inputs are the same: the searches stopped at different plans.",
        "Allow more time with `--time-limit`, where time ended a search.",
    ),
    "plan-has-gap": Meaning(
        "diff",
        "A plan is the best one that its search found, and not proven best.",
        "Allow more time with `--time-limit`, where time ended the search.",
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
        "The folder is full or cannot be written, or other users may write to it. Each run compiles anew, unless "
        "another folder is there for compiled code.",
        "Make room there, or set `PLANNER_CACHE_DIR` to a folder of your own.",
    ),
    "compiled-code-damaged": Meaning(
        RUN,
        "A file of compiled code was cut, emptied or changed, or cannot be read. The code is compiled and stored "
        "again.",
        "Nothing, unless it happens again: then check the disk, or set `PLANNER_CACHE_DIR` to a folder on another one.",
    ),
}

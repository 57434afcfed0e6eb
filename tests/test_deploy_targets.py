"""What an export means to who reads it: thresholds to the token, command lines to real parsers, transfer by site."""

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Sequence
from importlib import import_module
from math import floor
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.deploy import TARGETS, Target
from planner.results.plan import Plan
from tests.deploy_cases import (
    containers,
    exported,
    manifests,
    model,
    options,
    pool,
    reference,
    request_class,
    split,
    two_pools,
    two_sites,
)

THRESHOLDS = st.one_of(st.floats(0.25, 1e6), st.integers(1, 10**6).map(float))
NEAR = st.integers(-3, 3)
BASH = shutil.which("bash")


def router_configs(files: dict[str, str]) -> list[dict[str, Any]]:
    """What every GlobalRouter of an export reads."""
    return [json.loads(text) for one in manifests(files, "ConfigMap") for text in one["data"].values()]


def row_of(grid: dict[str, Any], tokens: int) -> int:
    """Row of a length in the GlobalRouter's grid, as Dynamo 1.6.1 computes it."""
    step = (grid["isl_max"] - grid["isl_min"]) / grid["isl_resolution"]
    row = max(0, min(int((tokens - grid["isl_min"]) / step), grid["isl_resolution"] - 1))
    return int(grid["prefill_pool_mapping"][row][0])


@given(THRESHOLDS, NEAR)
def test_dynamo_s_grid_divides_prompts_where_the_plan_does(threshold: float, near: int) -> None:
    (config,) = router_configs(exported(split(threshold), "dynamo"))
    tokens = max(floor(threshold) + near, 0)
    chosen = row_of(config["prefill_pool_selection_strategy"], tokens)
    pools = ["default-split-pool-near", "default-split-pool-far"]
    assert config["prefill_pool_dynamo_namespaces"] == pools
    assert chosen == (tokens > threshold)


@given(THRESHOLDS, NEAR)
def test_llm_d_s_ranges_divide_prompts_where_the_plan_does(threshold: float, near: int) -> None:
    tokens = max(floor(threshold) + near, 0)
    taken = []
    for one in manifests(exported(split(threshold), "llm-d")):
        templates = (
            [one["spec"].get("template")]
            + [role["spec"]["leaderWorkerTemplate"]["workerTemplate"] for role in one.get("spec", {}).get("roles", [])]
            if "spec" in one
            else []
        )
        for template in filter(None, templates):
            labels = template["metadata"]["labels"]
            if "llm-d.ai/context-length-range" in labels:
                low, high = map(int, labels["llm-d.ai/context-length-range"].split("-"))
                taken += [labels["llm-d.ai/pool"]] if low <= tokens <= high else []
    assert taken == (["far"] if tokens > threshold else ["near"])


@given(THRESHOLDS)
def test_routers_of_launch_commands_have_the_pools_of_their_kind_alone(threshold: float) -> None:
    files = exported(split(threshold), "sglang")
    short, long = files["home/router-home-short.sh"], files["home/router-home-long.sh"]
    assert "near-0" in short
    assert "far-0" not in short
    assert "far-0" in long
    assert "near-0" not in long
    assert f"at most {floor(threshold):,} tokens" in short


@pytest.mark.parametrize("threshold", [None, 0.0])
@pytest.mark.parametrize("target", ["dynamo", "llm-d", "sglang", "vllm"])
def test_no_prompt_is_divided_where_all_or_none_leave(threshold: float | None, target: Target) -> None:
    files = exported(split(threshold), target)
    used = "far" if threshold == 0 else "near"
    assert "context-length" not in "".join(files.values())
    assert not any(name.endswith("-long.sh") for name in files)
    assert f"home: all prompts go to {used}." in files["NOT_EXPRESSED.md"]
    for config in router_configs(files) if target == "dynamo" else []:
        assert config["prefill_pool_dynamo_namespaces"] == [f"default-split-pool-{used}"]


@pytest.mark.parametrize("target", TARGETS)
def test_instances_accelerators_and_layout_are_those_of_the_plan(target: Target) -> None:
    files = exported(two_pools(), target)
    if target in ("sglang", "vllm"):
        services = yaml.safe_load(files["home/compose.yaml"])["services"]
        assert sorted(name for name in services if not name.startswith("router")) == [
            "decode-0",
            "decode-1",
            "prefill-0",
            "prefill-1",
        ]
        flag = {"sglang": "--tp-size", "vllm": "--tensor-parallel-size"}[target]
        assert all(options(services[name]["entrypoint"])[flag] == "8" for name in ("decode-0", "prefill-0"))
    else:
        text = "".join(files.values())
        assert text.count("replicas: 2\n") == 2
        assert text.count('nvidia.com/gpu: "8"') == 4  # limits and requests
        assert text.count('nvidia.com/gpu.product: "NVIDIA-H200"') == 2


def test_what_clusters_call_things_is_a_parameter() -> None:
    said = (
        "label.h200-sxm=my-h200",
        "label_key=example.com/chip",
        "resource.h200-sxm=example.com/gpu",
        "namespace=llm",
    )
    files = exported(two_pools(), "dynamo", *said, "image=registry.example/x:1", "checkpoint.dense=/models/dense")
    text = "".join(text for name, text in files.items() if name.endswith(".yaml"))
    for word in ('example.com/chip: "my-h200"', 'example.com/gpu: "8"', 'namespace: "llm"', '"/models/dense"'):
        assert word in text
    assert "nvcr.io" not in text
    assert "NVIDIA-H200" not in text


def test_a_cluster_that_spans_the_sites_has_all_files_and_regions_on_the_pods() -> None:
    files = exported(split(), "llm-d", "clusters=one", "region.away=us-west-2")
    assert {name.partition("/")[0] for name in files} == {"all-sites", "NOT_EXPRESSED.md"}
    text = files["all-sites/split-model-dense.yaml"]
    assert 'topology.kubernetes.io/region: "us-west-2"' in text
    assert 'topology.kubernetes.io/region: "home"' in text
    assert "finds pods of its own cluster" not in files["NOT_EXPRESSED.md"]


def arguments(files: dict[str, str], of: str) -> list[str]:
    """Arguments of the engine of a pool in a manifest."""
    (found,) = [
        main["args"]
        for one in manifests(files)
        for part in one.get("spec", {}).get("components", [])
        if part["name"] == of
        for main in containers(part)
    ]
    return list(found)


@pytest.mark.parametrize(
    ("engine", "wanted"),
    [
        ("vllm", {"--tensor-parallel-size": "1", "--data-parallel-size": "8", "--enable-expert-parallel": ""}),
        ("sglang", {"--tp-size": "8", "--attn-dp-size": "8", "--ep-size": "8"}),
    ],
)
def test_replicas_of_attention_are_laid_out_as_each_engine_counts_them(engine: str, wanted: dict[str, str]) -> None:
    found = options(arguments(exported(two_sites(), "dynamo", f"engine={engine}"), "east-decode"))
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(("has_experts", "is_expert_parallel"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("tp", "dp", "pp"), [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2)])
def test_degrees_of_a_layout_that_are_not_said_are_one(
    tp: int, dp: int, pp: int, has_experts: bool, is_expert_parallel: bool
) -> None:
    """SGLang counts the replicas of a mixture of experts inside its tensor size; vLLM never does."""
    ep = tp * dp if is_expert_parallel else 1
    shape: dict[str, Any] = {"layout": f"tp={tp},ep={ep},dp={dp},pp={pp}", "accelerators_per_instance": tp * dp * pp}
    pools = (pool("prefill", "prefill", **shape), pool("decode", "decode", **shape, batch_limit=None))
    of = two_pools(models=(model(has_experts=has_experts),)).model_copy(update={"pools": pools})
    wanted = {
        "vllm": {"--tensor-parallel-size": tp, "--data-parallel-size": dp, "--pipeline-parallel-size": pp},
        "sglang": {
            "--tp-size": tp * dp if has_experts else tp,
            "--attn-dp-size": dp if has_experts else 1,
            "--dp-size": 1 if has_experts else dp,
            "--pp-size": pp,
            "--ep-size": ep,
        },
    }
    engines: tuple[Target, ...] = ("vllm", "sglang")
    for engine in engines:
        words = shlex.split(exported(of, engine)["home/start-decode.sh"], comments=True)
        found = options(words)
        sizes = {flag: int(found.get(flag, "1")) for flag in wanted[engine]}
        assert sizes == wanted[engine]
        assert "1" not in [size for flag, size in found.items() if flag in [*wanted[engine]][1:]]
        assert ("--enable-expert-parallel" in found) == (engine == "vllm" and ep > 1)


@pytest.mark.parametrize(("engine", "batch"), [("vllm", "13"), ("sglang", "100")])
def test_the_batch_is_of_a_replica_under_vllm_and_of_the_instance_under_sglang(engine: str, batch: str) -> None:
    found = options(arguments(exported(two_sites(), "dynamo", f"engine={engine}"), "east-decode"))
    assert found[{"vllm": "--max-num-seqs", "sglang": "--max-running-requests"}[engine]] == batch


@pytest.mark.parametrize(
    ("precision", "kv", "engine", "wanted"),
    [
        ("fp8", "fp8", "vllm", {"--quantization": "fp8", "--kv-cache-dtype": "fp8"}),
        ("fp8", "fp8", "sglang", {"--quantization": "fp8", "--kv-cache-dtype": "fp8_e4m3"}),
        ("bf16", "bf16", "vllm", {"--kv-cache-dtype": "bfloat16"}),
        ("bf16", "fp4", "sglang", {"--kv-cache-dtype": "nvfp4"}),
    ],
)
def test_number_formats_are_said_in_the_engine_s_words(
    precision: str, kv: str, engine: Target, wanted: dict[str, str]
) -> None:
    pools = tuple(pool(name, name, precision=precision, kv_precision=kv) for name in ("prefill", "decode"))
    files = exported(two_pools().model_copy(update={"pools": pools}), engine)
    services = yaml.safe_load(files["home/compose.yaml"])["services"]
    found = options(services["decode-0"]["entrypoint"])
    assert {name: found.get(name) for name in ("--quantization", "--kv-cache-dtype") if name in found} == wanted


@pytest.mark.parametrize(("planned", "wanted"), [("fp8", "fp8"), (None, "bf16")])
def test_pods_say_the_precision_of_their_pool_and_else_that_of_its_model(planned: str | None, wanted: str) -> None:
    pools = tuple(pool(name, name, precision=planned) for name in ("prefill", "decode"))
    files = exported(two_pools().model_copy(update={"pools": pools}), "dynamo")
    said = [
        line.strip() for text in files.values() for line in text.splitlines() if "prefill-planner/precision:" in line
    ]
    assert {line.partition(": ")[2].strip('"') for line in said} == {wanted}


def test_an_instance_of_several_machines_is_a_multinode_component_of_dynamo() -> None:
    large = tuple(
        pool(name, name, accelerators_per_instance=16, layout="tp=16", n_accelerators=32)
        for name in ("prefill", "decode")
    )
    (graph,) = manifests(exported(two_pools().model_copy(update={"pools": large}), "dynamo"), "DynamoGraphDeployment")
    for component in graph["spec"]["components"][1:]:
        assert component["multinode"] == {"nodeCount": 2}
        assert component["podTemplate"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}


def transports(files: dict[str, str]) -> dict[str, str]:
    """UCX transports by the name of the container's pool."""
    found = {}
    for one in manifests(files):
        for part in one.get("spec", {}).get("components", []):
            for main in containers(part):
                values = {item["name"]: item["value"] for item in main.get("env", [])}
                if "UCX_TLS" in values:
                    found[part["name"]] = values["UCX_TLS"]
    return found


def test_caches_that_cross_sites_have_no_rdma_and_those_inside_may() -> None:
    found = transports(exported(split(), "dynamo"))
    assert "rc" not in found["far"].split(",")
    assert "tcp" in found["far"].split(",")
    assert {"rc", "tcp"} <= {*found["near"].split(",")}
    assert {"rc", "tcp"} <= {*found["decode"].split(",")}


@pytest.mark.parametrize(("asked", "wanted"), [("tcp", "tcp"), ("rdma", "rc")])
def test_transfer_is_what_is_asked_for(asked: str, wanted: str) -> None:
    found = transports(exported(two_pools(), "dynamo", f"transfer={asked}"))
    assert all(
        words.split(",")[0] == wanted and len({*words.split(",")} & {"rc", "tcp"}) == 1 for words in found.values()
    )


def test_sglang_takes_tcp_for_all_that_exchange_caches_with_another_site_and_rdma_elsewhere() -> None:
    assert "mooncake_tcp" not in "".join(exported(two_pools(), "sglang").values())
    files = exported(split(), "sglang")
    starts = [text for name, text in files.items() if "/start-" in name]
    assert len(starts) == 3
    assert all("--disaggregation-transfer-backend mooncake_tcp\n" in text for text in starts)


@pytest.mark.parametrize("target", ["vllm", "llm-d", "kserve", "dynamo"])
def test_a_hybrid_model_keeps_its_hybrid_cache_under_vllm(target: Target) -> None:
    hybrid = two_pools(models=(model(has_recurrent_state=True),))
    text, plain = ("".join(exported(one, target).values()) for one in (hybrid, two_pools()))
    assert "--no-disable-hybrid-kv-cache-manager" in text
    assert "VLLM_SSM_CONV_STATE_LAYOUT" in text
    assert "VLLM_SSM_CONV_STATE_LAYOUT" not in plain


def test_thresholds_are_those_of_the_period_that_is_asked_for() -> None:
    busiest, night = (exported(two_sites(), "llm-d", *asked) for asked in ((), ("period=night",)))
    assert '"0-3000"' in "".join(busiest.values())
    assert '"0-3000"' not in "".join(night.values())
    assert "night: chat at east none is long" in busiest["NOT_EXPRESSED.md"]
    assert "hub-prefill takes no requests in night" not in busiest["NOT_EXPRESSED.md"]


def test_every_decision_that_no_file_holds_is_named() -> None:
    page = exported(two_sites(), "llm-d")["NOT_EXPRESSED.md"]
    for words in (
        "hub-east, hub to east: 100 Gbps, round trip 30 ms",
        "east: one threshold for all classes, that of chat. The plan has others: agent long beyond 8000.5 tokens.",
        "The plan has 2 periods; day is deployed, at all hours.",
        "Nothing holds latency to what is promised (chat: TTFT within 2 s, for 90 % of requests).",
        "It counts the whole prompt, not what of it is uncached",
        "does not prove that anything is scheduled",
    ):
        assert words in page


def run_script(text: str, tmp_path: Path, *given_arguments: str) -> list[str]:
    """Words of the command that a script runs in the end: stand-ins for the programs print theirs."""
    if BASH is None:
        pytest.skip("bash is not installed")
    script, said = tmp_path / "script.sh", tmp_path / "said"
    script.write_text(text, encoding="utf-8")
    for program in ("smg", "vllm-router", "vllm", "python3"):
        stand_in = tmp_path / program
        stand_in.write_text(f'#!{BASH}\nprintf "%s\\0" {program} "$@" > {said}\n', encoding="utf-8")
        stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([BASH, str(script), *given_arguments], env=environment, check=True, capture_output=True, text=True)
    return said.read_text(encoding="utf-8").split("\0")[:-1]


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("of", [two_sites, split, reference])
def test_scripts_run_the_commands_that_the_compose_file_has(engine: Target, of: Any, tmp_path: Path) -> None:
    files = exported(of(), engine)
    for name in (name for name in files if name.endswith("compose.yaml")):
        folder = name.partition("/")[0]
        services = yaml.safe_load(files[name])["services"]
        for service, told in services.items():
            if service.startswith("router"):
                words = run_script(files[f"{folder}/{service}.sh"], tmp_path)
                assert told["entrypoint"][3:] == words
            elif service.endswith(("-0", "-1")):
                start, _, number = service.rpartition("-")
                assert told["entrypoint"] == run_script(files[f"{folder}/start-{start}.sh"], tmp_path, number)


def test_two_instances_of_a_machine_share_neither_accelerators_nor_ports() -> None:
    services = yaml.safe_load(exported(two_sites(), "vllm")["east/compose.yaml"])["services"]
    first, second = (services[f"east-prefill-{i}"] for i in range(2))
    assert first["profiles"] == second["profiles"]
    devices = [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in (first, second)]
    assert devices == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert options(first["entrypoint"])["--port"] != options(second["entrypoint"])["--port"]
    ports = {one["environment"]["VLLM_NIXL_SIDE_CHANNEL_PORT"] for one in (first, second)}
    assert len(ports) == 2


def real_parser(module: str) -> Any:
    """Command line of a router, from its own package."""
    package = pytest.importorskip(module, reason=f"{module.partition('.')[0]} is not installed")
    parser = argparse.ArgumentParser()
    package.RouterArgs.add_cli_args(parser)
    return lambda words: package.RouterArgs.from_cli_args(parser.parse_args(words))


def router_words(of: Plan, engine: Target, tmp_path: Path) -> list[list[str]]:
    files = exported(of, engine)
    return [run_script(text, tmp_path) for name, text in files.items() if "/router-" in name and name.endswith(".sh")]


def hosts(urls: Sequence[Any]) -> set[str]:
    return {(url if isinstance(url, str) else url[0]).removeprefix("http://").partition(":")[0] for url in urls}


@pytest.mark.parametrize("package", ["smg", "sglang_router"])
@pytest.mark.parametrize("of", [two_pools, two_sites, reference])
def test_sglang_s_own_routers_take_the_command_line(package: str, of: Any, tmp_path: Path) -> None:
    parse = real_parser(f"{package}.router_args")
    for words in router_words(of(), "sglang", tmp_path):
        found = parse(words[2:])
        assert found.pd_disaggregation
        assert found.policy == "power_of_two"
        assert all(port == 8998 or port == 8999 for _, port in found.prefill_urls)
        assert hosts(found.prefill_urls)
        assert not hosts(found.prefill_urls) & hosts(found.decode_urls)


@pytest.mark.parametrize("of", [two_pools, two_sites, reference])
def test_vllm_s_own_router_takes_the_command_line(of: Any, tmp_path: Path) -> None:
    parse = real_parser("vllm_router.router_args")
    for words in router_words(of(), "vllm", tmp_path):
        found = parse(words[1:])
        found._validate_router_args()
        assert found.vllm_pd_disaggregation
        assert hosts(found.prefill_urls)
        assert not hosts(found.prefill_urls) & hosts(found.decode_urls)


@pytest.mark.parametrize("of", [split, two_sites, reference])
def test_dynamo_s_own_loader_takes_the_router_s_file_and_chooses_as_planned(of: Any, tmp_path: Path) -> None:
    """Put the package's `dynamo` folder on PYTHONPATH: installed whole, it brings plugins of pytest that need a GPU."""
    pytest.importorskip("dynamo.global_router", reason="ai-dynamo is not installed")
    selection = import_module("dynamo.global_router.pool_selection")
    for config in router_configs(exported(of(), "dynamo")):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        strategy = selection.load_config(path).prefill_pool_selection_strategy
        edge = config["prefill_pool_selection_strategy"]["isl_max"] // 2
        assert [strategy.select_pool(tokens) for tokens in (0, edge - 1, edge, 10 * edge)] == [0, 0, 1, 1]


def test_dynamo_s_own_parser_takes_the_global_router_s_command_line() -> None:
    """As above: the package's `dynamo` folder on PYTHONPATH."""
    pytest.importorskip("dynamo.global_router", reason="ai-dynamo is not installed")
    module = import_module("dynamo.global_router.backend_args")
    parser = argparse.ArgumentParser()
    module.DynamoGlobalRouterArgGroup().add_arguments(parser)
    routers = [
        part
        for one in manifests(exported(split(), "dynamo"))
        for part in containers(one)
        if part["command"][-1] == "dynamo.global_router"
    ]
    for router in routers:
        found = module.DynamoGlobalRouterConfig.from_cli_args(parser.parse_args(router["args"]))
        found.validate()
        assert (found.config_path, found.model_name) == ("/etc/global-router/config.json", "makers/dense")
    assert len(routers) == 1


@pytest.mark.parametrize("of", [two_pools, two_sites, reference])
def test_flags_of_sglang_are_fields_of_its_own_arguments(of: Any) -> None:
    """The package is read, not run: what it imports takes a GPU."""
    package = importlib.util.find_spec("sglang")
    if package is None or not package.submodule_search_locations:
        pytest.skip("sglang is not installed")
    folder = Path(next(iter(package.submodule_search_locations))) / "srt" / "arg_groups" / "fields"
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    known = {*re.findall(r"^    (\w+): A\[", text, flags=re.MULTILINE)}
    assert "tp_size" in known
    for name, file in exported(of(), "sglang").items():
        for service in yaml.safe_load(file)["services"].values() if name.endswith("compose.yaml") else ():
            if "sglang.launch_server" in service["entrypoint"]:
                flags = {word[2:].replace("-", "_") for word in options(service["entrypoint"])}
                assert flags <= known


def test_workers_under_a_global_router_are_called_what_it_registers() -> None:
    files = exported(split(), "dynamo")
    assert [options(arguments(files, name))["--served-model-name"] for name in ("far", "near", "decode")] == [
        "makers/dense"
    ] * 3


def test_classes_of_other_models_have_routers_of_their_own() -> None:
    pools = tuple(
        pool(f"{name}-{role}", role, model=name) for name in ("dense", "other") for role in ("prefill", "decode")
    )
    classes = (request_class("a", share=0.5), request_class("b", share=0.5, model="other"))
    plan = two_pools(models=(model(), model("other")), classes=classes).model_copy(update={"pools": pools})
    graphs = manifests(exported(plan, "dynamo"), "DynamoGraphDeployment")
    assert [[part["name"] for part in one["spec"]["components"]] for one in graphs] == [
        ["Frontend", "dense-prefill", "dense-decode"],
        ["Frontend", "other-prefill", "other-decode"],
    ]


def test_classes_of_one_model_that_are_decoded_at_different_sites_have_their_own_threshold_and_pools() -> None:
    sites, tokens = ("east", "west"), {"east": 1000.0, "west": 2000.0}
    pools = tuple(
        pool(
            f"{site}-{kind}",
            "decode" if kind == "decode" else "prefill",
            site,
            prompts=None if kind == "decode" else kind,
        )
        for site in sites
        for kind in ("short", "long", "decode")
    )
    classes = tuple(
        request_class(
            f"of-{site}",
            share=0.5,
            threshold_tokens=tokens[site],
            pool_shares={work: {f"{site}-{work}": 1.0} for work in ("short", "long", "decode")},
        )
        for site in sites
    )
    of = two_pools(classes=classes).model_copy(update={"pools": pools})
    limits = {}
    for config in router_configs(exported(of, "dynamo")):
        (name,) = config["decode_pool_dynamo_namespaces"]
        limits[name] = config["prefill_pool_selection_strategy"]["isl_max"] / 2 - 1
    assert limits == {f"default-two-pools-pool-{site}-decode": tokens[site] for site in sites}


def test_instances_are_those_of_the_period_that_is_deployed_and_the_others_are_named() -> None:
    of = two_sites()
    night = of.periods[1]
    fewer = tuple(one.model_copy(update={"n_instances": 0 if "hub" in one.name else 1}) for one in night.pools)
    of = of.model_copy(update={"periods": (of.periods[0], night.model_copy(update={"pools": fewer}))})
    by_day, by_night = (exported(of, "llm-d", *asked) for asked in ((), ("period=night",)))
    assert "replicas: 3\n" in by_day["hub/two-sites-model-dense.yaml"]
    assert (
        "hub-prefill: 3 instances are deployed; the plan has 0 to 3 by period; nothing in the files scales it."
        in by_day["NOT_EXPRESSED.md"]
    )
    assert not any(name.startswith("hub/") for name in by_night)
    assert "replicas: 1\n" in by_night["east/two-sites-model-dense.yaml"]


def test_what_engines_decide_of_a_layout_themselves_is_named() -> None:
    pools = tuple(pool(name, name, layout="tp=4,dp=2,dense_tp=4") for name in ("prefill", "decode"))
    files = exported(two_pools().model_copy(update={"pools": pools}), "vllm")
    services = yaml.safe_load(files["home/compose.yaml"])["services"]
    assert options(services["prefill-0"]["entrypoint"])["--tensor-parallel-size"] == "4"
    assert "engines lay dense MLPs out themselves" in files["NOT_EXPRESSED.md"]


@pytest.mark.parametrize(
    ("image", "is_told"),
    [
        ("registry.example/dynamo:1.6.1", False),
        ("registry.example:5000/dynamo:v1.7.0-rc1", False),
        ("dynamo:main", True),
    ],
)
def test_dynamo_is_told_the_version_of_an_image_whose_tag_has_none(image: str, is_told: bool) -> None:
    for one in manifests(exported(split(), "dynamo", f"image={image}"), "DynamoGraphDeployment"):
        for component in one["spec"]["components"]:
            assert component.get("runtimeVersionOverride") == ("1.6.1" if is_told else None)

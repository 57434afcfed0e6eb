"""A plan as the files that deploy it, and a folder that holds all of them or none."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from planner.deploy.deployment import Deployment, deployment
from planner.deploy.dynamo import dynamo_files
from planner.deploy.kserve import kserve_files
from planner.deploy.launch import launch_files
from planner.deploy.llm_d import llm_d_files
from planner.deploy.not_expressed import FILE, not_expressed
from planner.deploy.parameters import parameters_from
from planner.deploy.pods import KUSTOMIZATION, kustomization
from planner.deploy.refusals import ON_KUBERNETES, Target, check_target, engine_of
from planner.deploy.versions import EngineName
from planner.errors import InputError, InputProblem
from planner.files import ASIDE, check_writable_folder
from planner.results.plan import Plan

SCRIPT_MODE = 0o111
"""What a script may be besides what any file may."""


def export_files(plan: Plan, target: Target, parameters: Iterable[str], origin: str) -> dict[str, str]:
    """Files that deploy a plan: texts by their path below a folder; the same plan gives the same bytes.

    Args:
        plan: the plan.
        target: what it is deployed with.
        parameters: `KEY=VALUE` facts and choices that no plan has.
        origin: how errors call the plan.

    Raises:
        UsageError: a parameter is not KEY=VALUE.
        InputError: the target cannot hold the plan without being wrong, with every reason; or a parameter is wrong.
    """
    deployed = deployment(plan, parameters_from(parameters, plan), origin)
    engine = engine_of(deployed, target)
    check_target(deployed, target, engine)
    files = _files(deployed, target, engine)
    if target in ON_KUBERNETES:
        files |= {f"{name}/{KUSTOMIZATION}": _kustomization(deployed, name, files) for name in _folders(files)}
    return {**dict(sorted(files.items())), FILE: not_expressed(deployed, target, engine)}


def _files(deployed: Deployment, target: Target, engine: EngineName) -> dict[str, str]:
    if target == "dynamo":
        return dict(dynamo_files(deployed, engine))
    if target == "llm-d":
        return dict(llm_d_files(deployed))
    return dict(kserve_files(deployed) if target == "kserve" else launch_files(deployed, engine))


def _folders(files: Mapping[str, str]) -> list[str]:
    return sorted({path.partition("/")[0] for path in files})


def _kustomization(deployed: Deployment, cluster: str, files: Mapping[str, str]) -> str:
    """Of everything in a cluster's folder that is a manifest: values of a chart are none."""
    names = [path.partition("/")[2] for path in sorted(files) if path.startswith(f"{cluster}/")]
    return kustomization(deployed, [name for name in names if not name.endswith("-values.yaml")])


def check_export_folder(out_dir: Path) -> None:
    """Say before any work that an export cannot be put into a folder.

    Raises:
        InputError: it is no folder, holds anything that is not an earlier export, or cannot be replaced where it is.
    """
    check_writable_folder(Path(os.path.realpath(out_dir)).parent)
    with _explained(out_dir):
        if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / FILE).is_file():
            problem = InputProblem(
                str(out_dir), "", "is not empty, and holds no earlier export", "a new or an empty folder"
            )
            raise InputError(problem)


def write_export(files: Mapping[str, str], out_dir: Path) -> None:
    """Write the files of an export as a folder, which is there as a whole or not at all.

    They are written aside, then take the place of an earlier export.

    Args:
        files: texts by their path.
        out_dir: the folder; made where it does not exist.

    Raises:
        InputError: it cannot be written, or holds anything that is not an earlier export.
    """
    check_export_folder(out_dir)
    with _explained(out_dir):
        target = Path(os.path.realpath(out_dir))
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f"{ASIDE}{token_hex(8)}")
        try:
            for name, text in files.items():
                _write(aside / name, text)
            _put(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _put(aside: Path, target: Path) -> None:
    """Have a folder take the place of another, which comes back if that fails."""
    if not target.exists():
        aside.rename(target)
        return
    before = target.with_name(f"{ASIDE}{token_hex(8)}")
    target.rename(before)
    try:
        aside.rename(target)
    except OSError:
        before.rename(target)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    if path.suffix == ".sh":
        path.chmod(path.stat().st_mode | SCRIPT_MODE)


@contextmanager
def _explained(out_dir: Path) -> Iterator[None]:
    """The system's errors about a folder, in the planner's words."""
    try:
        yield
    except OSError as error:
        what = f"the export cannot be written: {error.strerror or error}"
        raise InputError(InputProblem(str(out_dir), "", what, "a folder that may be written")) from None

#!/usr/bin/env bash
# Plans PLANNER_SCENARIO at PLANNER_BASE and as it is checked out, and writes the difference to PLANNER_COMMENT,
# the step summary and the step's outputs. Ends as `planner diff` does, and as `planner optimize` where there is no plan any more.
set -euo pipefail

planner="$RUNNER_TEMP/planner-diff/bin/planner"
work=$(mktemp -d "$RUNNER_TEMP/planner-diff-XXXXXX")
head_folder=$PWD
export PLANNER_DATA="${PLANNER_TRACES:-${PLANNER_DATA:-}}" PLANNER_PROFILES="${PLANNER_OWN:-${PLANNER_PROFILES:-}}"

# plan FOLDER NAME: the plan of the scenario in a checkout, with the profiles of that checkout.
plan() {
  local status=0
  (
    cd "$1"
    "$planner" optimize "$PLANNER_SCENARIO" --time-limit "$PLANNER_TIME_LIMIT" --format json
  ) > "$work/$2.json" 2> "$work/$2.err" || status=$?
  cat "$work/$2.err" >&2
  return "$status"
}

# say HEADING FILE: a comment without a difference, with a text as it stands.
say() {
  printf '%s\n\n### Capacity plan of %s: %s\n\n' "$marker" "$slug" "$1"
  printf '~~~~~~text\n'
  head --bytes=50000 "$2" | tr '~' '-'
  printf '\n~~~~~~\n'
}

# finish CHANGED STATUS: hands the comment over.
finish() {
  cp "$work/comment.md" "$PLANNER_COMMENT"
  cat "$work/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
  printf 'comment=%s\nchanged=%s\n' "$PLANNER_COMMENT" "$1" >> "${GITHUB_OUTPUT:-/dev/null}"
  git worktree remove --force "$work/base" 2> /dev/null || true
  rm -rf "$work"
  exit "$2"
}

# The same first line whatever becomes of the plan: by the file, for a scenario without a plan has no name that is known.
slug=$(printf '%s' "${PLANNER_SCENARIO%.toml}" | tr -c 'a-zA-Z0-9_.' '-' | tr --squeeze-repeats '-')
marker="<!-- planner diff: $slug -->"
if [ -z "$PLANNER_BASE" ]; then
  echo "plan-diff: base: is empty (a commit; pull requests have one)" >&2
  exit 2
fi
git cat-file -e "$PLANNER_BASE^{commit}" 2> /dev/null || git fetch --quiet --depth 1 origin "$PLANNER_BASE"
git worktree add --quiet --detach "$work/base" "$PLANNER_BASE"

status=0
plan "$head_folder" head || status=$?
if [ "$status" -ne 0 ]; then
  say "no plan" "$work/head.err" > "$work/comment.md"
  finish true "$status"
fi
if [ ! -e "$work/base/$PLANNER_SCENARIO" ] || ! plan "$work/base" base; then
  "$planner" optimize "$PLANNER_SCENARIO" --time-limit "$PLANNER_TIME_LIMIT" > "$work/new.txt"
  say "no plan at the base to compare with" "$work/new.txt" > "$work/comment.md"
  finish true 0
fi

mapfile -t conditions < <(printf '%s\n' "$PLANNER_FAIL_ON" | sed '/^[[:space:]]*$/d')
options=()
for condition in "${conditions[@]}"; do options+=(--fail-on "$condition"); done
cd "$work"
"$planner" diff base.json head.json --format markdown | sed "1s/.*/$marker/" > comment.md
changed=true
"$planner" diff base.json head.json --exit-code > difference.txt 2> /dev/null && changed=false
"$planner" diff base.json head.json "${options[@]}" || status=$?
cd "$head_folder"
finish "$changed" "$status"

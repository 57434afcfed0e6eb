"""Results for people: tables in a terminal, a report in Markdown, figures.

Public modules:

    fidelity_tables    predictions beside measured points, on a terminal
    fitted             tables where there is little room
    live_tables        a live run on a terminal
    phrases            phrases on a plan that tables and reports share
    prediction_tables  a prediction on a terminal
    run_tables         a run on a terminal
    scenario_keys      the handbook's pages of scenario keys
    scheduler_tables   what schedulers changed in a run, and its worth
    size_map_report    a map of sizes as a report
    size_tables        a size on a terminal
    sweep_tables       a sweep on a terminal and as CSV
    terminal           frames, tables and lists for a terminal
    validation_tables  a validation on a terminal
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.report.chart_run import run_chart, write_run_figure
    from planner.report.chart_sweep import sweep_chart, write_sweep_figure
    from planner.report.current_text import current_tables
    from planner.report.diff_comment import diff_markdown
    from planner.report.diff_text import diff_tables
    from planner.report.explained import explanation, explanation_tables
    from planner.report.explore_index import index_html
    from planner.report.explore_page import explore_html
    from planner.report.fidelity_folder import check_fidelity_report, write_fidelity_report
    from planner.report.fidelity_tables import worst_points, worst_table
    from planner.report.figure_files import write_front, write_roofline, write_schedulers, write_tornado
    from planner.report.folder import check_inputs, check_report, write_report
    from planner.report.live_folder import write_live_report
    from planner.report.markdown import report_markdown
    from planner.report.phrases import break_even_line
    from planner.report.prediction_tables import shortfall
    from planner.report.reproduce import Reproduction
    from planner.report.run_files import check_record_file, write_records, write_timeline
    from planner.report.screen import growth_table, plan_screen
    from planner.report.study_tables import front_tables, sensitivity_tables
    from planner.report.sweep_tables import write_sweep_csv
    from planner.report.tables import SECTIONS, plan_tables
    from planner.report.terminal import PRINT_WIDTH
    from planner.report.validation_tables import broken_promises, undecided_promises

_LAZY = {
    "run_chart": "chart_run",
    "write_run_figure": "chart_run",
    "sweep_chart": "chart_sweep",
    "write_sweep_figure": "chart_sweep",
    "current_tables": "current_text",
    "diff_markdown": "diff_comment",
    "diff_tables": "diff_text",
    "explanation": "explained",
    "explanation_tables": "explained",
    "index_html": "explore_index",
    "explore_html": "explore_page",
    "check_fidelity_report": "fidelity_folder",
    "write_fidelity_report": "fidelity_folder",
    "worst_points": "fidelity_tables",
    "worst_table": "fidelity_tables",
    "write_front": "figure_files",
    "write_roofline": "figure_files",
    "write_schedulers": "figure_files",
    "write_tornado": "figure_files",
    "check_inputs": "folder",
    "check_report": "folder",
    "write_report": "folder",
    "write_live_report": "live_folder",
    "report_markdown": "markdown",
    "shortfall": "prediction_tables",
    "Reproduction": "reproduce",
    "check_record_file": "run_files",
    "write_records": "run_files",
    "write_timeline": "run_files",
    "front_tables": "study_tables",
    "sensitivity_tables": "study_tables",
    "write_sweep_csv": "sweep_tables",
    "SECTIONS": "tables",
    "plan_tables": "tables",
    "plan_screen": "screen",
    "growth_table": "screen",
    "PRINT_WIDTH": "terminal",
    "broken_promises": "validation_tables",
    "undecided_promises": "validation_tables",
    "break_even_line": "phrases",
}

__all__ = [
    "PRINT_WIDTH",
    "SECTIONS",
    "Reproduction",
    "break_even_line",
    "broken_promises",
    "check_fidelity_report",
    "check_record_file",
    "check_inputs",
    "check_report",
    "current_tables",
    "diff_markdown",
    "diff_tables",
    "explanation",
    "explanation_tables",
    "explore_html",
    "front_tables",
    "growth_table",
    "index_html",
    "plan_screen",
    "plan_tables",
    "report_markdown",
    "run_chart",
    "sensitivity_tables",
    "shortfall",
    "sweep_chart",
    "undecided_promises",
    "worst_points",
    "worst_table",
    "write_fidelity_report",
    "write_front",
    "write_live_report",
    "write_records",
    "write_report",
    "write_roofline",
    "write_run_figure",
    "write_schedulers",
    "write_sweep_csv",
    "write_sweep_figure",
    "write_timeline",
    "write_tornado",
]

__getattr__ = on_first_use(__name__, _LAZY)

"""Results for people: tables in a terminal, a report in Markdown, figures."""

from planner.report.chart_run import run_chart, write_run_figure
from planner.report.chart_sweep import sweep_chart, write_sweep_figure
from planner.report.fidelity_folder import check_fidelity_report, write_fidelity_report
from planner.report.fidelity_tables import fidelity_tables, worst_points, worst_table
from planner.report.figure_files import write_front, write_roofline, write_schedulers, write_tornado
from planner.report.figures import figures
from planner.report.folder import check_report, write_report
from planner.report.live_folder import check_live_report, write_live_report
from planner.report.live_tables import live_tables
from planner.report.markdown import report_markdown
from planner.report.prediction_tables import prediction_tables, shortfall
from planner.report.rerun import Rerun
from planner.report.run_files import check_folder, check_record_file, write_records, write_timeline
from planner.report.run_tables import run_tables
from planner.report.scheduler_tables import scheduler_tables
from planner.report.study_tables import front_tables, sensitivity_tables
from planner.report.sweep_tables import sweep_tables, write_sweep_csv
from planner.report.tables import plan_tables
from planner.report.terminal import PRINT_WIDTH
from planner.report.validation_tables import broken_promises, undecided_promises, validation_tables
from planner.report.words import break_even_line

__all__ = [
    "PRINT_WIDTH",
    "Rerun",
    "break_even_line",
    "broken_promises",
    "check_fidelity_report",
    "check_folder",
    "check_record_file",
    "check_live_report",
    "check_report",
    "fidelity_tables",
    "figures",
    "front_tables",
    "live_tables",
    "plan_tables",
    "prediction_tables",
    "report_markdown",
    "run_chart",
    "run_tables",
    "scheduler_tables",
    "sensitivity_tables",
    "shortfall",
    "sweep_chart",
    "sweep_tables",
    "undecided_promises",
    "validation_tables",
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

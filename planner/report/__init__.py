"""Results for people: tables in a terminal, a report in Markdown, figures."""

from planner.report.fidelity_folder import check_fidelity_report, write_fidelity_report
from planner.report.fidelity_tables import fidelity_tables, worst_points, worst_table
from planner.report.figure_files import write_front, write_roofline, write_tornado
from planner.report.figures import figures
from planner.report.folder import check_report, write_report
from planner.report.live_tables import live_tables
from planner.report.markdown import report_markdown
from planner.report.prediction_tables import prediction_tables, shortfall
from planner.report.study_tables import front_tables, sensitivity_tables
from planner.report.tables import plan_tables
from planner.report.terminal import PRINT_WIDTH

__all__ = [
    "PRINT_WIDTH",
    "check_fidelity_report",
    "check_report",
    "fidelity_tables",
    "figures",
    "front_tables",
    "live_tables",
    "plan_tables",
    "prediction_tables",
    "report_markdown",
    "sensitivity_tables",
    "shortfall",
    "worst_points",
    "worst_table",
    "write_fidelity_report",
    "write_report",
    "write_front",
    "write_roofline",
    "write_tornado",
]

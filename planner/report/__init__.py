"""Results for people: tables in a terminal, a report in Markdown, figures."""

from planner.report.figures import figures
from planner.report.folder import check_report, write_report
from planner.report.markdown import report_markdown
from planner.report.tables import PRINT_WIDTH, plan_tables

__all__ = ["PRINT_WIDTH", "check_report", "figures", "plan_tables", "report_markdown", "write_report"]

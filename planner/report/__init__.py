"""Results for people: tables in a terminal, a report in Markdown, figures.

Public modules:

    certified_tables   promises beside a run, on a terminal
    chart_run          the figure of a run
    chart_sweep        the figure of a sweep
    current_text       the fleet that stands, on a terminal
    diff_comment       two plans in a comment on a pull request
    diff_text          two plans side by side, on a terminal
    explained          a plan's numbers explained in statements
    explore_index      an index of pages of `planner explore`
    explore_page       the page of `planner explore`
    fidelity_folder    predictions beside measurements, as a folder
    fidelity_tables    predictions beside measured points, on a terminal
    figure_files       single figures as files
    fitted             tables where there is little room
    folder             a report as a folder, and its check
    live_folder        a live run as a folder
    live_tables        a live run on a terminal
    phrases            phrases on a plan that tables and reports share
    prediction_tables  a prediction on a terminal
    reproduce          the way to make a report again
    run_files          records of a run as CSV or timeline
    run_tables         a run on a terminal
    scenario_keys      the handbook's pages of scenario keys
    scheduler_tables   what schedulers changed in a run, and its worth
    screen             the first screen of a plan
    size_map_report    a map of sizes as a report
    size_tables        a size on a terminal
    study_tables       fronts and sensitivities on a terminal
    sweep_tables       a sweep on a terminal and as CSV
    tables             a plan on a terminal
    terminal           frames, tables and lists for a terminal
    validation_tables  a validation on a terminal
"""

"""The charts of the page as Vega-Lite specifications; their rows are named data that the page fills in.

No name of a user is part of a specification: such names are values of rows, which are never evaluated.
"""

from typing import Any

Spec = dict[str, Any]
HUES = ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#56B4E9", "#E69F00", "#882255", "#999933")
"""Colours that colour-blind readers tell apart (Okabe and Ito; purple, wine, olive: Tol)."""
NOW, PLAN = "#D55E00", "#0072B2"
SIZE = {"width": "container", "height": 230}
TOKENS = {
    "field": "tokens",
    "type": "quantitative",
    "scale": {"type": "log", "nice": False},
    "axis": {"format": "~s"},
    "title": "threshold (tokens)",
}
FLEETS, PLACES = "fleets", "places"
"""Names of the fleets, and of pools and links, that the page puts in as domains of colours and marks."""


def specifications() -> dict[str, Spec]:
    """Every chart by the name of its data and of its place in the page."""
    return {
        "capacity": _capacity(),
        "ttft": _ttft(),
        "cost": _cost(),
        "use": _use(),
        "throughput": _front("most requests per second"),
        "goodput": _front("most requests per second within the promise"),
        "first-token": _front("time to first token (s)"),
        "hours": _hours(),
        "map": _map(),
        "tornado": _tornado(),
        "prices": _prices(),
        "money": _money(),
        "executed": _executed(),
    }


def _rows(name: str) -> Spec:
    return {"name": name}


def _field(name: str, title: str, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", "title": title, **more}


def _names(of: str | None = None) -> Spec:
    """Colours of names: those that charts share, by their place among all of their kind."""
    scale = {"range": list(HUES)} | ({"domain": of} if of else {})
    return {"field": "name", "type": "nominal", "title": None, "scale": scale}


def _spec(*layers: Spec, **more: Any) -> Spec:
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", **SIZE, "layer": list(layers), **more}


def _marker(kind: str, colour: str, data: str, x: Spec, y: Spec | None = None) -> Spec:
    """Mark at the plan, or at where the knobs are."""
    mark = {"type": kind, "color": colour, "strokeWidth": 2, "size": 90, "filled": True, "tooltip": True}
    if kind == "rule":
        mark = {"type": "rule", "color": colour, "strokeWidth": 2, "strokeDash": [5, 3] if colour == PLAN else []}
    encoding = {"x": {**x, "title": x.get("title")}} | ({"y": y} if y else {})
    return {"data": _rows(data), "mark": mark, "encoding": encoding}


def _capacity() -> Spec:
    y = _field("req_per_s", "requests per second")
    return _spec(
        {
            "data": _rows("capacity"),
            "mark": {"type": "line", "tooltip": True, "clip": True},
            "encoding": {"x": TOKENS, "y": y, "color": _names(PLACES), "strokeDash": {"field": "name", "title": None}},
        },
        {
            "data": _rows("highest"),
            "mark": {"type": "area", "opacity": 0.15, "color": "#767676"},
            "encoding": {"x": TOKENS, "y": y},
        },
        _marker("rule", PLAN, "plan", TOKENS),
        _marker("rule", NOW, "now", TOKENS),
        _marker("point", NOW, "now", TOKENS, _field("max_throughput_req_per_s", "requests per second")),
    )


def _ttft() -> Spec:
    seconds = _field("seconds", "time to first token (s)", scale={"type": "log", "nice": False})
    return _spec(
        {
            "data": _rows("ttft"),
            "mark": {"type": "line", "point": True, "tooltip": True},
            "encoding": {"x": TOKENS, "y": seconds, "color": _names()},
        },
        {
            "data": _rows("promise"),
            "mark": {"type": "rule", "strokeDash": [2, 2], "color": "#767676"},
            "encoding": {"y": seconds},
        },
        _marker("rule", PLAN, "plan", TOKENS),
        _marker("rule", NOW, "now", TOKENS),
    )


def _cost() -> Spec:
    y = _field("usd", "USD per million input tokens", scale={"zero": False})
    return _spec(
        {
            "data": _rows("cost"),
            "mark": {"type": "line", "color": "#009E73", "tooltip": True},
            "encoding": {"x": TOKENS, "y": y},
        },
        _marker("rule", PLAN, "plan", TOKENS),
        _marker("rule", NOW, "now", TOKENS),
    )


def _bars(data: str, title: str, field: str, **more: Any) -> Spec:
    x = _field(field, title, **more)
    y = {"field": "name", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 160}}
    return {
        "data": _rows(data),
        "mark": {"type": "bar", "color": PLAN, "tooltip": True},
        "encoding": {"x": x, "y": y},
    }


def _use() -> Spec:
    bars = _bars("use", "busy", "busy", axis={"format": "%"}, scale={"domain": [0, 1], "clamp": True})
    planned = {
        "data": _rows("use"),
        "mark": {"type": "tick", "color": NOW, "thickness": 3, "tooltip": True},
        "encoding": {**bars["encoding"], "x": _field("planned", "busy")},
    }
    return _spec(bars, planned, height={"step": 26})


def _front(title: str) -> Spec:
    y = _field("value", title, scale={"zero": False, "nice": True})
    x = _field("usd", "USD per hour", scale={"zero": False, "nice": True})
    line = {
        "data": _rows("front"),
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "point": True,
            "color": "#767676",
            "tooltip": {"content": "data"},
        },
        "encoding": {"x": x, "y": y, "order": {"field": "usd"}},
    }
    shape = {"field": "name", "title": None, "scale": {"domain": FLEETS}}
    others = {
        "data": _rows("others"),
        "mark": {"type": "point", "filled": True, "size": 110, "tooltip": {"content": "data"}},
        "encoding": {"x": x, "y": y, "color": _names(FLEETS), "shape": shape},
    }
    return _spec(line, others)


def _hours() -> Spec:
    x = {"field": "hour", "type": "ordinal", "title": "period", "sort": None, "axis": {"labelOverlap": True}}
    return _spec(
        {
            "data": _rows("hours"),
            "mark": {"type": "bar", "tooltip": {"content": "data"}},
            "encoding": {
                "x": x,
                "y": _field("accelerators", "accelerators at work", stack=True),
                "color": _names(PLACES),
                "opacity": {"condition": {"test": "datum.chosen", "value": 1}, "value": 0.55},
            },
        }
    )


def _map() -> Spec:
    hidden: Spec = {"axis": None, "scale": {"domain": [-1.5, 1.5]}}
    x, y = _field("x", "", **hidden), _field("y", "", **hidden)
    ends = {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    width = {"field": "width", "type": "quantitative", "scale": None, "legend": None}

    def link(colour: str, opacity: float, field: str) -> Spec:
        mark = {
            "type": "rule",
            "color": colour,
            "opacity": opacity,
            "strokeCap": "round",
            "tooltip": {"content": "data"},
        }
        return {"data": _rows("links"), "mark": mark, "encoding": {**ends, "strokeWidth": {**width, "field": field}}}

    text = {"field": "label", "type": "nominal"}
    return _spec(
        link("#767676", 0.35, "rented"),
        link(PLAN, 0.9, "used"),
        {
            "data": _rows("sites"),
            "mark": {"type": "circle", "opacity": 1, "color": "#009E73", "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y, "size": {"field": "area", "type": "quantitative", "scale": None}},
        },
        {"data": _rows("sites"), "mark": {"type": "text", "dy": -26}, "encoding": {"x": x, "y": y, "text": text}},
        height=220,
    )


def _tornado() -> Spec:
    bars = _bars("tornado", "change of the objective", "low", axis={"format": "+%"})
    bars["encoding"]["x2"] = {"field": "high"}
    bars["mark"]["height"] = {"band": 0.7}
    return _spec(bars, height={"step": 22})


def _prices() -> Spec:
    x = _field("ratio", "ratio of the two prices", scale={"zero": False})
    return _spec(
        {
            "data": _rows("prices"),
            "mark": {"type": "line", "interpolate": "step-after", "tooltip": True},
            "encoding": {
                "x": x,
                "y": _field("gain", "plan over the other fleet", axis={"format": "+%"}),
                "color": _names(),
            },
        },
        _marker("rule", PLAN, "stated", x),
    )


def _money() -> Spec:
    return _spec(_bars("money", "USD per hour", "usd"), height={"step": 26})


def _executed() -> Spec:
    x = _field("load", "load", axis={"format": "%"}, scale={"zero": False})
    y = _field("seconds", "time to first token (s)")
    return _spec(
        {
            "data": _rows("predicted"),
            "mark": {"type": "line", "tooltip": True},
            "encoding": {"x": x, "y": y, "color": _names()},
        },
        {
            "data": _rows("executed"),
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": _names()},
        },
        {
            "data": _rows("executed"),
            "mark": {"type": "point", "filled": True, "size": 70, "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y, "color": _names()},
        },
    )

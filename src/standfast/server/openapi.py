"""The OpenAPI document, made from the same table as the routes."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from standfast.records import Accepted, Halt, Receipt, Refused, RunView, TooLate
from standfast.server.agui_input import RunInput
from standfast.server.operations import OPERATIONS, Operation
from standfast.server.problems import TITLES
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

REF = "#/components/schemas/{model}"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what happened"},
        "hint": {"type": "string", "description": "what to do about it"},
        "run": {"type": "string"},
        "answer": {"description": "what the run answered, if it said no"},
    },
}
STREAMS = (
    ("/api/runs/{id}/events", "events", "The events of a run as they come (SSE); ends after the ending"),
    ("/api/events", "all_events", "The events of all runs as they come (SSE)"),
)
AGUI = (
    (
        "/agui/{agent}",
        "agui",
        "AG-UI: start a run, or go on with the one of the thread, and follow it to its next stop",
    ),
    ("/agui/runs/{id}", "agui_run", "AG-UI: join a run, answer its interrupts, and follow it to its next stop"),
)


@cache
def _schemas() -> dict[str, Any]:
    bodies: set[type[BaseModel]] = {each.body for each in OPERATIONS if each.body is not None} | {RunInput}
    _, found = models_json_schema(
        [(model, "validation") for model in sorted(bodies, key=lambda m: m.__name__)], ref_template=REF
    )
    schemas: dict[str, Any] = dict(found.get("$defs", {}))
    shown: dict[str, Any] = {
        "RunView": RunView,
        "Receipt": Receipt,
        "StopRecord": StopRecord,
        "Accepted": Accepted,
        "Refused": Refused,
        "TooLate": TooLate,
        "Said": Said,
        "Halt": Halt,
    }
    for name, kind in shown.items():
        schema = TypeAdapter(kind).json_schema(ref_template=REF, mode="serialization")
        schemas |= schema.pop("$defs", {})
        schemas[name] = schema
    for name in ("Accepted", "Refused", "TooLate"):
        schemas[name]["properties"]["answer"] = {"type": "string"}
    schemas["Problem"] = PROBLEM
    schemas["Anything"] = {}
    schemas["Runs"] = _holding("runs", "RunView")
    schemas["Halts"] = _holding("halts", "Halt")
    schemas["Stops"] = _holding("stops", "StopRecord")
    schemas["Stops"]["properties"]["more"] = {"type": "boolean"}
    schemas["Transcript"] = _holding("transcript", "Said")
    schemas["Agents"] = {
        "type": "object",
        "required": ["agents"],
        "properties": {"agents": {"type": "array", "items": {"type": "object"}}},
    }
    return schemas


def _holding(name: str, of: str) -> dict[str, Any]:
    items = {"$ref": REF.format(model=of)}
    return {"type": "object", "required": [name], "properties": {name: {"type": "array", "items": items}}}


def document(root: str = "") -> dict[str, Any]:
    """OpenAPI 3.1, for a server mounted at `root`."""
    paths: dict[str, Any] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    for path, name, summary in STREAMS:
        paths[path] = {"get": _stream(path, name, summary)}
    for path, name, summary in AGUI:
        paths[path] = {"post": _agui(path, name, summary)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "standfast",
            "version": version("standfast"),
            "description": "Runs of agents, and every control over them.",
        },
        "servers": [{"url": root or "/"}],
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "standfast"},
            },
        },
    }


def _operation(each: Operation) -> dict[str, Any]:
    statuses = [400, 401, 403, 404, 413, 415, 421, 422, 429, 503] + ([409] if each.says_no else [])
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [*_path_parameters(each.path), *_query(each.query)],
        "responses": {
            str(each.answers): {
                "description": "as asked",
                "content": {each.media: {"schema": {"$ref": REF.format(model=each.schema)}}},
            },
            **{str(status): _problem(status) for status in sorted(statuses)},
        },
    }
    if each.body is not None:
        needed = any(field.is_required() for field in each.body.model_fields.values())
        content = {"application/json": {"schema": {"$ref": REF.format(model=each.body.__name__)}}}
        found["requestBody"] = {"required": needed, "content": content}
        key = {"type": "string", "minLength": 1, "maxLength": 200}
        found["parameters"].append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    return found


def _stream(path: str, name: str, summary: str) -> dict[str, Any]:
    place = {"type": "integer", "minimum": 0}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [
            *_path_parameters(path),
            {"name": "after", "in": "query", "required": False, "schema": place},
            {"name": "Last-Event-ID", "in": "header", "required": False, "schema": place},
        ],
        "responses": _events(401, 403, 404, 421, 422, 429, 503),
    }


def _agui(path: str, name: str, summary: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": REF.format(model=RunInput.__name__)}}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": _path_parameters(path),
        "requestBody": {"required": True, "content": content},
        "responses": _events(400, 401, 403, 404, 409, 413, 415, 421, 422, 429, 503),
    }


def _events(*problems: int) -> dict[str, Any]:
    return {
        "200": {"description": "events", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **{str(status): _problem(status) for status in problems},
    }


def _problem(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}}
    return {"description": TITLES.get(status, "a problem"), "content": content}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]


def _query(model: type[BaseModel] | None) -> list[dict[str, Any]]:
    if model is None:
        return []
    schema = model.model_json_schema(ref_template=REF)
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _one_kind(field),
            "description": field.get("description", ""),
        }
        for name, field in schema["properties"].items()
    ]


def _one_kind(field: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: it is left out."""
    kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
    return {name: value for name, value in kinds[0].items() if name not in ("title", "default", "description")}

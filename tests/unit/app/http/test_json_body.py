"""A route that reads its body alone skips the solver, and never a dependency."""

from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel

from app.http.json_body import JsonBodyRoute

pytestmark = pytest.mark.anyio


class Body(BaseModel):
    prompt: str


def deny():
    raise HTTPException(401, "no key")


async def endpoint(body: Body, request: Request) -> Response:
    return Response(body.prompt)


def router(path_operation=endpoint, **options):
    made = APIRouter(route_class=JsonBodyRoute)
    made.post("/", **options)(path_operation)
    return made


def included(made, application=None, **options):
    application = application or FastAPI()
    application.include_router(made, **options)
    return application


def router_with_lock():
    made = APIRouter(route_class=JsonBodyRoute, dependencies=LOCK)
    made.post("/")(endpoint)
    return made


async def behind_parameter(body: Body, request: Request, _: Annotated[None, Depends(deny)]):
    return Response(body.prompt)


LOCK = [Depends(deny)]
LOCKED = {
    "the route": lambda: included(router(dependencies=LOCK)),
    "its router": lambda: included(router_with_lock()),
    "the inclusion": lambda: included(router(), dependencies=LOCK),
    "the application": lambda: included(router(), FastAPI(dependencies=LOCK)),
    "an outer router": lambda: included(included(router(), APIRouter()), dependencies=LOCK),
    "the endpoint": lambda: included(router(behind_parameter)),
}


async def posted(application, **options):
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://cocoa") as client:
        return await client.post("/", **{"json": {"prompt": "Hi"}} | options)


@pytest.mark.parametrize("build", LOCKED.values(), ids=list(LOCKED))
async def test_a_dependency_is_never_skipped(build):
    assert (await posted(build())).status_code == 401


async def reads_header(body: Body, request: Request, key: Annotated[str, Header()]) -> Response:
    return Response(f"{body.prompt} {key}")


async def test_an_endpoint_may_read_more_than_its_body():
    application = included(router(reads_header))
    assert (await posted(application, headers={"key": "7"})).text == "Hi 7"
    assert (await posted(application)).status_code == 422


async def test_a_route_that_reads_its_body_alone_is_served_without_the_solver(monkeypatch):
    def solver(*_, **__):
        raise AssertionError("the solver costs as much as an answer from the cache")

    monkeypatch.setattr("fastapi.routing.solve_dependencies", solver)
    application = included(router())
    assert (await posted(application)).text == "Hi"
    assert (await posted(application, json={"prompt": 1})).status_code == 422

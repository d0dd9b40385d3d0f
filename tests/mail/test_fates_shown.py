"""What people see of a redirect that was not read, or cannot be sent: in lists, pages and stories (R40)."""

from __future__ import annotations

from tests.helpers import eventually
from tests.mail.test_fates import a_lab, at_two_doors, blinkered, chores, elders
from tests.mail.world import Task, World, missing, status

from standfast import Refused
from standfast.cli.colours import Tinted
from standfast.cli.pages import receipt_page, run_page, run_table
from standfast.cli.words import answer_lines
from standfast.shapes import receipt_json, view_json


async def test_a_live_run_shows_the_need_with_the_commands_that_settle_it() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(blinkered, Task())
        need = await missing(run, world, by="ann")
        view = await run.view()
        page = "\n".join(run_page(view))
        assert "unread: “something else” from ann (claimed) not read: step 0 ended without reading it" in page
        assert f"standfast resend {run.id} {need.id}" in page
        assert f"standfast drop {run.id} {need.id}" in page
        assert "[not read: step 0 ended without reading it]" in page
        assert "needs you: “something else” from ann (claimed) not read" in "\n".join(run_table([view]))
        red = [line for line in (*run_page(view), *run_table([view])) if isinstance(line, Tinted)]
        assert len(red) == 4 and all("not read" in line for line in red)  # sign, mail, need; and the list
        shown = view_json(view)
        assert [one["kind"] for one in shown["needs"]] == ["unread"]
        assert [(one["fate"], one["step"]) for one in shown["mail"]] == [("not_read", 0)]


async def test_what_runs_below_have_left_unread_is_shown_on_those_above_until_it_is_settled() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(elders, Task())
        await eventually(lambda: "think step 0" in world.log)
        views = {view.agent: view for view in await runs.list()}
        inner = runs.handle(views["blinkered"].id)
        need = await missing(inner, world)
        for above in (run, runs.handle(views["parents"].id)):
            view = await above.view()
            assert view.child_needs == {inner.id: "a redirect was not read"}
            assert view.needs == []  # it is settled on the child
            page = run_page(view)
            assert f"a child needs you: a redirect was not read ({inner.id})" in page
            assert f"  standfast show {inner.id}" in page
            assert "a redirect was not read" in run_table([view])[1]
            assert view_json(view)["child_needs"] == {inner.id: "a redirect was not read"}
        await run.pause()
        await status(run, "paused")
        assert (await run.view()).child_needs == {inner.id: "a redirect was not read"}  # and no word of their pause
        assert await inner.drop(need.id)
        assert (await run.view()).child_needs == {}
        await run.resume()
        world.shut["think step 1"].set()
        await run.result(timeout=120)


async def test_an_ended_run_shows_a_line_in_page_list_and_receipt_and_offers_a_fork() -> None:
    world = World()
    async with a_lab(world) as runs:
        run = await runs.start(blinkered, Task(steps=1))
        await eventually(lambda: world.log)
        await run.redirect("something else")
        world.open.set()
        await run.result(timeout=120)
        view, receipt = await run.view(), await run.settled(10)
        assert view.needs == []
        line = "redirect “something else” not read: step 0 ended without reading it; fork the run to have it done"
        page = "\n".join(run_page(view))
        assert f"✉! {line}" in page and f"standfast fork {run.id}" in page
        assert "redirect “something else” not read" in "\n".join(run_table([view]))
        assert f"  ✉! {line}" in receipt_page(receipt)
        assert view_json(view)["not_read"] == receipt_json(receipt)["not_read"] == [line]


async def test_a_run_cancelled_with_an_unread_redirect_says_so_in_its_receipt() -> None:
    world = World()
    async with a_lab(world) as runs:
        at_two_doors(world)
        run = await runs.start(blinkered, Task())
        await missing(run, world)
        await run.cancel()
        receipt = await run.settled(10)
        assert [m.reason for m in (await run.view()).mail] == ["cancelled"]
        assert len(receipt.not_read) == 1 and "step 0 ended without reading it" in receipt.not_read[0]
        assert await runs.list(needs=True) == []


async def test_a_line_that_takes_no_redirects_says_so_and_the_refusal_offers_what_does() -> None:
    world = World()
    async with a_lab(world) as runs:
        last = world.shut_at("think lock up")
        run = await runs.start(chores, Task())
        await eventually(lambda: "think lock up" in world.log)
        view = await run.view()
        assert "  ▶ Lock up  (takes no redirects)" in run_page(view)
        refused = await run.redirect("leave it")
        assert isinstance(refused, Refused)
        assert answer_lines("redirect", refused, view)[0] == "refused: “Lock up” takes no redirects"
        assert view_json(view)["consequences"]["no_redirect"] == "“Lock up” takes no redirects"
        last.set()
        await status(run, "done")

"""What a tenant hands to a browser in which the operator of the hub is logged in."""

from __future__ import annotations

from attack.arena import RED, Arena, Findings, attack
from attack.clients import Answer, Line, ask
from attack.scenery import SECOND_HOST

_MARKUP = b"<script>fetch('/dashboard/api/hubs')</script>"
_SHOWN = ("application/json", "application/octet-stream", "text/plain")
_TYPES = ("text/html", "text/plain, text/html", "image/svg+xml", "text/xml", "text/javascript")
_FORM = {"Origin": "https://red.example", "Sec_Fetch_Site": "cross-site"}


@attack("origin", "content, answers and errors that a browser could take for a page of the hub")
async def active_content(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    token = arena.tokens[RED]
    for number, kind in enumerate(_TYPES):
        channel = f"/v1/hubs/{RED}/channels/log:page{number}"
        await ask(arena, "POST", f"{channel}/messages?store=1", token, _MARKUP, Content_Type=kind)
        content = await ask(arena, "GET", f"{channel}/content", token)
        _judge(found, content, f"content of {kind}")
        found.expect(content.body == _MARKUP, f"control: content of {kind} is {content.label}")
        url = arena.url(f"/ok/page?type={kind.replace(', ', ',').replace('+', '%2B')}", SECOND_HOST)
        path = f"/v1/admin/hubs/{RED}/rpc-routes/page"
        await ask(arena, "PUT", path, token, {"method": "page.*", "url": url, "timeoutSeconds": 5})
        answer = await ask(arena, "POST", f"/v1/hubs/{RED}/rpc/page.now", token, _MARKUP)
        _judge(found, answer, f"a service's {kind}")
        found.expect(answer.body == _MARKUP, f"control: a service's {kind} is {answer.label}")
    for path in ("/%3Cscript%3E", f"/v1/hubs/{RED}/hub/publish/%3Cscript%3E"):
        _judge(found, await ask(arena, "GET", path, token), path)
    return found


@attack("origin", "forms of another page with a token in the address, and pages at the admin API")
async def foreign_pages(arena: Arena, seconds: float) -> Findings:
    found = Findings()
    token = arena.tokens[RED]
    path = f"/v1/admin/hubs/{RED}/settings"
    settings = (await ask(arena, "GET", path, token)).json
    await ask(arena, "PUT", path, token, {**settings, "allowedOrigins": ["*"]})
    form = f"/v1/hubs/{RED}/channels/news/messages?token={token}"
    for what, method, where, bearer in (
        ("a form", "POST", form, ""),
        ("a page", "GET", f"/v1/admin/hubs/{RED}/rules", token),
    ):
        by_page = await ask(arena, method, where, bearer, **_FORM)
        found.answers[by_page.label] += 1
        found.expect(by_page.status == 403, f"{what} is answered: {by_page.label}")
        by_program = await ask(arena, method, where, bearer)
        found.expect(by_program.status == 200, f"control: {what} is {by_program.label}")
    async with await Line.open(arena) as line:
        line.send(b"GET /healthz\r\n\r\n")
        old = await line.answer()
        found.answers[old.label] += 1
        found.expect(old.status == 400, f"HTTP/0.9 is answered: {old.label}")
    return found


def _judge(found: Findings, answer: Answer, what: str) -> None:
    found.answers[answer.label] += 1
    kind = answer.headers.get("content-type", "").partition(";")[0]
    harmless = "sandbox" in answer.headers.get("content-security-policy", "")
    found.expect(kind in _SHOWN and harmless, f"{what} is answered as {kind!r}")

"""The host: what `headrace run` and its siblings put together of log, loop, tools and models.

`host` opens what a run needs, `lead` leads it, `terminal` and `jsonl` tell of it, `demo` is a task that needs no key,
`page` and `serve` show what a run has left.

Policy, what a tool does, what is durable before what must not be added here.
"""

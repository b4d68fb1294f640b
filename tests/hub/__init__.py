"""A small Hugging Face Hub on the loopback interface, for tests that push and pull for real.

`store` keeps the repositories on disk, `api` says what the Hub answers to each request, and
`server` is the HTTP around it. All need the standard library only.
"""

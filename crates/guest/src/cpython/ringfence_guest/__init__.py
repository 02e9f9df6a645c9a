"""The driver of a session in native CPython: it runs a host's snippets and speaks its frames on descriptor 3.

Answers to: the zygote, which calls `warm`, `reseed` and `serve` of `ringfence_guest.session`. Must not: be a place
where a limit or a permission is kept. The program can reach and change all of this; the host decides.
"""

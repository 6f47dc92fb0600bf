"""The reference pages in `docs/reference`, written from the code: `make docs` writes them, `tests/architecture` compares."""

"""`python -m docs_build`: write the reference pages anew."""

from docs_build.pages import FOLDER, pages


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()

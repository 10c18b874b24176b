def toml_document(
    text: str,
) -> tuple[
    dict[str, object],
    dict[tuple[str | int, ...], tuple[int, int]],
    tuple[int, int, str] | None,
]: ...

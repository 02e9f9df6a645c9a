"""Host functions for `ringfence run --exports examples/tools.py …`: they run outside, where they are trusted."""

from ringfence import PublicError, sandbox_export


@sandbox_export
def get_weather(city: str, days: int = 1) -> list[dict[str, float]]:
    """The forecast of a city, one entry a day."""
    if days > 7:
        raise PublicError("at most 7 days", type="ValueError")
    warmth = sum(city.encode()) % 15
    return [{"temp": 10.0 + (warmth + day) % 15, "rain": day % 3 / 3} for day in range(days)]

"""The HTTP door: the methods of `ReMe` as paths under `/v1`, and what the older service called its jobs."""
